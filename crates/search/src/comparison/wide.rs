//! Vector comparison with explicit SIMD instructions of x86-64. The compiler's own vectorisation uses only a half or a
//! quarter of the register width.

use super::{Column, Fours, LANES, OFFSET, QueryVector, VectorBlock, Vectors};
use pulp::core_arch::x86::Avx512vnni;
use pulp::x86::{V3, V4};
use pulp::{Simd, WithSimd, cast, i8x16, i8x32, i32x8, i32x16};
use std::arch::x86_64::{__m512i, _mm512_dpbusd_epi32, _mm512_set1_epi32, _mm512_setzero_si512};

/// Number of texts compared with a block while it is in registers: as many as a request and its clauses have.
const AT_ONCE: usize = 6;

/// A comparison with one instruction set; returns false if the processor does not have it.
pub(super) type PassFn = fn(&Vectors, &mut [Column<'_>]) -> bool;

/// All instruction sets, fastest first.
pub(super) const PASSES: [PassFn; 3] = [vnni, avx512, avx2];

/// Compares with the fastest instruction set; returns false if the processor has none of them.
pub(super) fn pass(vectors: &Vectors, columns: &mut [Column<'_>]) -> bool {
    PASSES.into_iter().any(|pass| pass(vectors, columns))
}

fn vnni(vectors: &Vectors, columns: &mut [Column<'_>]) -> bool {
    let (Some(simd), Some(fours)) = (V4::try_new(), Avx512vnni::try_new()) else { return false };
    Simd::vectorize(simd, SimdPass { vectors, columns, registers: Vnni(fours) });
    true
}

fn avx512(vectors: &Vectors, columns: &mut [Column<'_>]) -> bool {
    let pass = |simd| Simd::vectorize(simd, SimdPass { vectors, columns, registers: Avx512(simd) });
    V4::try_new().map(pass).is_some()
}

fn avx2(vectors: &Vectors, columns: &mut [Column<'_>]) -> bool {
    let pass = |simd| Simd::vectorize(simd, SimdPass { vectors, columns, registers: Avx2(simd) });
    V3::try_new().map(pass).is_some()
}

struct SimdPass<'a, 'b, R> {
    vectors: &'a Vectors,
    columns: &'a mut [Column<'b>],
    registers: R,
}

impl<R: DotProducts> WithSimd for SimdPass<'_, '_, R> {
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
    registers: impl DotProducts,
    vectors: &Vectors,
    mut columns: [&mut Column<'_>; N],
) {
    for (at, block) in vectors.blocks().enumerate() {
        let texts: [&QueryVector; N] = std::array::from_fn(|at| columns[at].text);
        let sums = registers.sums(block, texts);
        columns.iter_mut().zip(sums).for_each(|(column, sums)| column.put(at, sums, block.factors));
    }
}

/// Computes the dot products of a block's vectors with several texts.
trait DotProducts: Copy {
    fn sums<const N: usize>(self, block: VectorBlock<'_>, texts: [&QueryVector; N]) -> [[i32; LANES]; N];
}

/// AVX2: registers of 256 bits.
#[derive(Clone, Copy)]
struct Avx2(V3);

impl DotProducts for Avx2 {
    #[inline(always)]
    fn sums<const N: usize>(self, block: VectorBlock<'_>, texts: [&QueryVector; N]) -> [[i32; LANES]; N] {
        let Self(simd) = self;
        let texts = texts.map(|text| &text.numbers[..block.fours.len()]);
        let mut all = [[[0; 8]; 4]; N];
        // One quarter of the vectors at a time: more sums do not fit into the registers.
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

/// AVX-512: registers of 512 bits.
#[derive(Clone, Copy)]
struct Avx512(V4);

impl DotProducts for Avx512 {
    #[inline(always)]
    fn sums<const N: usize>(self, block: VectorBlock<'_>, texts: [&QueryVector; N]) -> [[i32; LANES]; N] {
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

/// Adds the two partial sums of each vector.
#[inline(always)]
fn halves_added(sums: [[i32; 2]; LANES]) -> [i32; LANES] {
    sums.map(|[first, second]| first + second)
}

/// AVX-512 VNNI: multiplies and adds four numbers of sixteen vectors in one instruction.
#[derive(Clone, Copy)]
struct Vnni(Avx512vnni);

impl DotProducts for Vnni {
    #[inline(always)]
    fn sums<const N: usize>(self, block: VectorBlock<'_>, texts: [&QueryVector; N]) -> [[i32; LANES]; N] {
        let Self(_able) = self;
        let texts = texts.map(|text| &text.unsigned[..block.fours.len()]);
        // SAFETY: a value of `Avx512vnni` exists only if the processor has the instruction.
        #[allow(unsafe_code, reason = "no crate offers the instruction")]
        let sums = unsafe { unsigned_sums(block.fours, texts) };
        // Subtracts the offset that was added to the texts.
        sums.map(|sum| {
            let sum: [i32; LANES] = cast(sum);
            std::array::from_fn(|lane| sum[lane] - i32::from(OFFSET) * block.totals[lane])
        })
    }
}

/// The sums for texts with the offset added: one operand of the instruction is unsigned.
#[target_feature(enable = "avx512f,avx512vnni")]
fn unsigned_sums<const N: usize>(block: &[Fours], texts: [&[[u8; 4]]; N]) -> [__m512i; N] {
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
