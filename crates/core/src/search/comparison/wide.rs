//! The pass over all vectors with the instructions that most processors of this kind have. The compiler finds a half or
//! a quarter of their width by itself.

use super::{Column, STEP, Step, Vectors};
use pulp::x86::{V3, V4};
use pulp::{Simd, WithSimd, cast, i32x8, i32x16};

/// So many texts are compared with a row while it is at hand: as many as a request and its clauses have.
const AT_ONCE: usize = 6;

/// Makes the pass; whether this processor could.
pub(super) fn pass(rows: &Vectors, columns: &mut [Column<'_>]) -> bool {
    if let Some(simd) = V4::try_new() {
        Simd::vectorize(simd, Pass { rows, columns, lanes: Widest(simd) });
        return true;
    }
    V3::try_new().map(|simd| Simd::vectorize(simd, Pass { rows, columns, lanes: Wide(simd) })).is_some()
}

struct Pass<'a, 'b, L> {
    rows: &'a Vectors,
    columns: &'a mut [Column<'b>],
    lanes: L,
}

impl<L: Lanes> WithSimd for Pass<'_, '_, L> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { rows, columns, lanes } = self;
        let (sixes, rest) = columns.as_chunks_mut::<AT_ONCE>();
        sixes.iter_mut().for_each(|six| each_row(lanes, rows, six.each_mut()));
        match rest {
            [a, b, c, d, e] => each_row(lanes, rows, [a, b, c, d, e]),
            [a, b, c, d] => each_row(lanes, rows, [a, b, c, d]),
            [a, b, c] => each_row(lanes, rows, [a, b, c]),
            [a, b] => each_row(lanes, rows, [a, b]),
            [a] => each_row(lanes, rows, [a]),
            _ => {}
        }
    }
}

#[inline(always)]
fn each_row<const N: usize>(lanes: impl Lanes, rows: &Vectors, mut columns: [&mut Column<'_>; N]) {
    for ((place, row), factor) in rows.numbers.chunks_exact(rows.steps()).enumerate().zip(&rows.factors) {
        let texts: [&[[i16; STEP]]; N] = std::array::from_fn(|at| &columns[at].text.numbers[..row.len()]);
        let sums = lanes.sums(row, texts);
        columns.iter_mut().zip(sums).for_each(|(column, sum)| column.put(place, sum, *factor));
    }
}

/// The sums of a row's products with several texts.
trait Lanes: Copy {
    fn sums<const N: usize>(self, row: &[Step], texts: [&[[i16; STEP]]; N]) -> [i32; N];
}

#[derive(Clone, Copy)]
struct Wide(V3);

impl Lanes for Wide {
    #[inline(always)]
    fn sums<const N: usize>(self, row: &[Step], texts: [&[[i16; STEP]]; N]) -> [i32; N] {
        let Self(simd) = self;
        let mut sums: [i32x8; N] = [cast([0_i32; 8]); N];
        for (step, Step(numbers)) in row.iter().enumerate() {
            for (at, numbers) in numbers.as_chunks::<16>().0.iter().enumerate() {
                let numbers = simd.convert_i8x16_to_i16x16(cast(*numbers));
                for (sum, text) in sums.iter_mut().zip(texts) {
                    let text = text[step].as_chunks::<16>().0[at];
                    let products = simd.multiply_wrapping_add_adjacent_i16x16(numbers, cast(text));
                    *sum = simd.wrapping_add_i32x8(*sum, products);
                }
            }
        }
        sums.map(|sum| cast::<i32x8, [i32; 8]>(sum).iter().sum())
    }
}

#[derive(Clone, Copy)]
struct Widest(V4);

impl Lanes for Widest {
    #[inline(always)]
    fn sums<const N: usize>(self, row: &[Step], texts: [&[[i16; STEP]]; N]) -> [i32; N] {
        let Self(simd) = self;
        let mut sums: [i32x16; N] = [cast([0_i32; 16]); N];
        for (step, Step(numbers)) in row.iter().enumerate() {
            for (at, numbers) in numbers.as_chunks::<32>().0.iter().enumerate() {
                let numbers = simd.convert_i8x32_to_i16x32(cast(*numbers));
                for (sum, text) in sums.iter_mut().zip(texts) {
                    let text = text[step].as_chunks::<32>().0[at];
                    let products = simd.multiply_wrapping_add_adjacent_i16x32(numbers, cast(text));
                    *sum = simd.wrapping_add_i32x16(*sum, products);
                }
            }
        }
        sums.map(|sum| cast::<i32x16, [i32; 16]>(sum).iter().sum())
    }
}
