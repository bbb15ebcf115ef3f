//! The pass over all vectors with the instructions that most processors of this kind have. The compiler finds a half or
//! a quarter of their width by itself.

use super::{Column, LANES, Pairs, Vectors};
use pulp::x86::{V3, V4};
use pulp::{Simd, WithSimd, cast, i8x16, i32x8, i32x16};

/// So many texts are compared with a block while it is at hand: as many as a request and its clauses have.
const AT_ONCE: usize = 6;

/// Makes the pass; whether this processor could.
pub(super) fn pass(vectors: &Vectors, columns: &mut [Column<'_>]) -> bool {
    if let Some(simd) = V4::try_new() {
        Simd::vectorize(simd, Pass { vectors, columns, registers: Widest(simd) });
        return true;
    }
    narrower(vectors, columns)
}

/// The pass for processors that lack the widest registers.
pub(super) fn narrower(vectors: &Vectors, columns: &mut [Column<'_>]) -> bool {
    let wide = |simd| Simd::vectorize(simd, Pass { vectors, columns, registers: Wide(simd) });
    V3::try_new().map(wide).is_some()
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
    for (block, (pairs, factors)) in vectors.blocks().enumerate() {
        let texts: [&[[i16; 2]]; N] = std::array::from_fn(|at| &columns[at].text.numbers[..pairs.len()]);
        let sums = registers.sums(pairs, texts);
        columns.iter_mut().zip(sums).for_each(|(column, sums)| column.put(block, sums, factors));
    }
}

/// The sums of the products of a block's vectors with several texts.
trait Registers: Copy {
    fn sums<const N: usize>(self, block: &[Pairs], texts: [&[[i16; 2]]; N]) -> [[i32; LANES]; N];
}

#[derive(Clone, Copy)]
struct Wide(V3);

impl Registers for Wide {
    #[inline(always)]
    fn sums<const N: usize>(self, block: &[Pairs], texts: [&[[i16; 2]]; N]) -> [[i32; LANES]; N] {
        let Self(simd) = self;
        let mut sums: [[i32x8; 2]; N] = [[cast([0_i32; 8]); 2]; N];
        for (at, Pairs(lanes)) in block.iter().enumerate() {
            let halves: [i8x16; 2] = cast(*lanes);
            let halves = halves.map(|half| simd.convert_i8x16_to_i16x16(half));
            for (sums, text) in sums.iter_mut().zip(texts) {
                let text = cast(simd.splat_i32x8(cast(text[at])));
                for (sum, half) in sums.iter_mut().zip(halves) {
                    let products = simd.multiply_wrapping_add_adjacent_i16x16(half, text);
                    *sum = simd.wrapping_add_i32x8(*sum, products);
                }
            }
        }
        sums.map(cast)
    }
}

#[derive(Clone, Copy)]
struct Widest(V4);

impl Registers for Widest {
    #[inline(always)]
    fn sums<const N: usize>(self, block: &[Pairs], texts: [&[[i16; 2]]; N]) -> [[i32; LANES]; N] {
        let Self(simd) = self;
        let mut sums: [i32x16; N] = [cast([0_i32; 16]); N];
        for (at, Pairs(lanes)) in block.iter().enumerate() {
            let lanes = simd.convert_i8x32_to_i16x32(cast(*lanes));
            for (sum, text) in sums.iter_mut().zip(texts) {
                let text = cast(simd.splat_i32x16(cast(text[at])));
                let products = simd.multiply_wrapping_add_adjacent_i16x32(lanes, text);
                *sum = simd.wrapping_add_i32x16(*sum, products);
            }
        }
        sums.map(cast)
    }
}
