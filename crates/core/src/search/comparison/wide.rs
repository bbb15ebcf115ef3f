//! The pass over all vectors with the instructions that most processors of this kind have. The compiler finds a half or
//! a quarter of their width by itself.

use super::{Block, Column, Fours, LANES, RAISED, Sought, Vectors};
use pulp::core_arch::x86::Avx512vnni;
use pulp::x86::{V3, V4};
use pulp::{Simd, WithSimd, cast, i8x16, i8x32, i32x8, i32x16};
use std::arch::x86_64::{__m512i, _mm512_dpbusd_epi32, _mm512_set1_epi32, _mm512_setzero_si512};

/// So many texts are compared with a block while it is at hand: as many as a request and its clauses have.
const AT_ONCE: usize = 6;

/// A way to make the pass; whether this processor could.
pub(super) type Passing = fn(&Vectors, &mut [Column<'_>]) -> bool;

/// All ways, the fastest first.
pub(super) const PASSES: [Passing; 3] = [by_fours, widest, wide];

/// Makes the pass; whether this processor could.
pub(super) fn pass(vectors: &Vectors, columns: &mut [Column<'_>]) -> bool {
    PASSES.into_iter().any(|pass| pass(vectors, columns))
}

fn by_fours(vectors: &Vectors, columns: &mut [Column<'_>]) -> bool {
    let (Some(simd), Some(fours)) = (V4::try_new(), Avx512vnni::try_new()) else { return false };
    Simd::vectorize(simd, Pass { vectors, columns, registers: ByFours(fours) });
    true
}

fn widest(vectors: &Vectors, columns: &mut [Column<'_>]) -> bool {
    let pass = |simd| Simd::vectorize(simd, Pass { vectors, columns, registers: Widest(simd) });
    V4::try_new().map(pass).is_some()
}

fn wide(vectors: &Vectors, columns: &mut [Column<'_>]) -> bool {
    let pass = |simd| Simd::vectorize(simd, Pass { vectors, columns, registers: Wide(simd) });
    V3::try_new().map(pass).is_some()
}

struct Pass<'a, 'b, R> {
    vectors: &'a Vectors,
    columns: &'a mut [Column<'b>],
    registers: R,
}

impl<R: Registers> WithSimd for Pass<'_, '_, R> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { vectors, columns, registers } = self;
        let (sixes, rest) = columns.as_chunks_mut::<AT_ONCE>();
        sixes.iter_mut().for_each(|six| each_block(registers, vectors, six.each_mut()));
        match rest {
            [a, b, c, d, e] => each_block(registers, vectors, [a, b, c, d, e]),
            [a, b, c, d] => each_block(registers, vectors, [a, b, c, d]),
            [a, b, c] => each_block(registers, vectors, [a, b, c]),
            [a, b] => each_block(registers, vectors, [a, b]),
            [a] => each_block(registers, vectors, [a]),
            _ => {}
        }
    }
}

#[inline(always)]
fn each_block<const N: usize>(
    registers: impl Registers,
    vectors: &Vectors,
    mut columns: [&mut Column<'_>; N],
) {
    for (at, block) in vectors.blocks().enumerate() {
        let texts: [&Sought; N] = std::array::from_fn(|at| columns[at].text);
        let sums = registers.sums(block, texts);
        columns.iter_mut().zip(sums).for_each(|(column, sums)| column.put(at, sums, block.factors));
    }
}

/// The sums of the products of a block's vectors with several texts.
trait Registers: Copy {
    fn sums<const N: usize>(self, block: Block<'_>, texts: [&Sought; N]) -> [[i32; LANES]; N];
}

/// Half as wide as the widest.
#[derive(Clone, Copy)]
struct Wide(V3);

impl Registers for Wide {
    #[inline(always)]
    fn sums<const N: usize>(self, block: Block<'_>, texts: [&Sought; N]) -> [[i32; LANES]; N] {
        let Self(simd) = self;
        let texts = texts.map(|text| &text.numbers[..block.fours.len()]);
        let mut all = [[[0; 8]; 4]; N];
        // One quarter of the vectors after the other: there are registers for no more sums.
        for quarter in 0..4 {
            let mut sums: [i32x8; N] = [cast([0_i32; 8]); N];
            for (at, Fours(lanes)) in block.fours.iter().enumerate() {
                let quarters: [i8x16; 4] = cast(*lanes);
                let numbers = simd.convert_i8x16_to_i16x16(quarters[quarter]);
                for (sum, text) in sums.iter_mut().zip(texts) {
                    let text = cast(simd.splat_i64x4(cast(text[at])));
                    let products = simd.multiply_wrapping_add_adjacent_i16x16(numbers, text);
                    *sum = simd.wrapping_add_i32x8(*sum, products);
                }
            }
            all.iter_mut().zip(sums).for_each(|(all, sum)| all[quarter] = cast(sum));
        }
        all.map(|sums| halves_added(cast(sums)))
    }
}

#[derive(Clone, Copy)]
struct Widest(V4);

impl Registers for Widest {
    #[inline(always)]
    fn sums<const N: usize>(self, block: Block<'_>, texts: [&Sought; N]) -> [[i32; LANES]; N] {
        let Self(simd) = self;
        let texts = texts.map(|text| &text.numbers[..block.fours.len()]);
        let mut sums: [[i32x16; 2]; N] = [[cast([0_i32; 16]); 2]; N];
        for (at, Fours(lanes)) in block.fours.iter().enumerate() {
            let halves: [i8x32; 2] = cast(*lanes);
            let halves = halves.map(|half| simd.convert_i8x32_to_i16x32(half));
            for (sums, text) in sums.iter_mut().zip(texts) {
                let text = cast(simd.splat_i64x8(cast(text[at])));
                for (sum, half) in sums.iter_mut().zip(halves) {
                    let products = simd.multiply_wrapping_add_adjacent_i16x32(half, text);
                    *sum = simd.wrapping_add_i32x16(*sum, products);
                }
            }
        }
        sums.map(|sums| halves_added(cast(sums)))
    }
}

/// Each vector's first and second half of all fours were added up for themselves.
#[inline(always)]
fn halves_added(sums: [[i32; 2]; LANES]) -> [i32; LANES] {
    sums.map(|[first, second]| first + second)
}

/// With the instruction that multiplies and adds four numbers of sixteen vectors at once.
#[derive(Clone, Copy)]
struct ByFours(Avx512vnni);

impl Registers for ByFours {
    #[inline(always)]
    fn sums<const N: usize>(self, block: Block<'_>, texts: [&Sought; N]) -> [[i32; LANES]; N] {
        let Self(_able) = self;
        let texts = texts.map(|text| &text.raised[..block.fours.len()]);
        // SAFETY: there is a value of `Avx512vnni` where the processor has the instruction, and nowhere else.
        #[allow(unsafe_code, reason = "no crate offers the instruction")]
        let sums = unsafe { raised_sums(block.fours, texts) };
        // What the texts were raised by is taken off again.
        sums.map(|sum| {
            let sum: [i32; LANES] = cast(sum);
            std::array::from_fn(|lane| sum[lane] - i32::from(RAISED) * block.totals[lane])
        })
    }
}

/// The sums for texts whose numbers were raised: the instruction wants those of one side without a sign.
#[target_feature(enable = "avx512f,avx512vnni")]
fn raised_sums<const N: usize>(block: &[Fours], texts: [&[[u8; 4]]; N]) -> [__m512i; N] {
    let mut sums = [_mm512_setzero_si512(); N];
    for (at, Fours(lanes)) in block.iter().enumerate() {
        let numbers = cast(*lanes);
        for (sum, text) in sums.iter_mut().zip(texts) {
            let text = _mm512_set1_epi32(i32::from_ne_bytes(text[at]));
            *sum = _mm512_dpbusd_epi32(*sum, text, numbers);
        }
    }
    sums
}
