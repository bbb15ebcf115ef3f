//! Compares the vectors of all tools with those of a few texts in one pass (cosine similarity).

use crate::meaning::Vector;

/// Numbers that are multiplied in one step. Arrays of a fixed length let the compiler use the vector instructions of
/// every processor; with slices of any length the comparison takes twice as long.
const STEP: usize = 32;

/// A list of vectors of the same width.
#[derive(Debug, Default)]
pub(crate) struct Vectors {
    width: usize,
    /// Vector after vector, each padded with zeros to whole steps.
    numbers: Vec<[i8; STEP]>,
    factors: Vec<f32>,
}

impl Vectors {
    /// An empty list with capacity for `count` vectors.
    pub(crate) fn with_room(width: usize, count: usize) -> Self {
        let numbers = Vec::with_capacity(width.div_ceil(STEP) * count);
        Self { width, numbers, factors: Vec::with_capacity(count) }
    }

    /// The number of vectors.
    pub(crate) fn len(&self) -> usize {
        self.factors.len()
    }

    /// Appends a vector; a missing one, or one of another width, has similarity 0 to everything.
    pub(crate) fn push(&mut self, vector: Option<&Vector>) {
        let vector = vector.filter(|vector| vector.width() == self.width);
        let end = self.numbers.len() + self.width.div_ceil(STEP);
        self.numbers.extend(vector.into_iter().flat_map(|vector| steps(&vector.bytes)));
        self.numbers.resize(end, [0; STEP]);
        self.factors.push(vector.map_or(0.0, |vector| vector.factor));
    }

    /// Writes the similarity of each vector to each text, from -1 to 1, into the list of that text.
    pub(crate) fn compare(&self, texts: &[QueryVector], out: &mut [Vec<f32>]) {
        // A text of another width cannot be compared: its list is left as it is.
        let fitting = texts.iter().zip(out).filter(|(text, _)| text.width == self.width);
        let mut columns: Vec<(&QueryVector, &mut [f32])> =
            fitting.filter_map(|(text, out)| Some((text, out.get_mut(..self.len())?))).collect();
        let length = self.width.div_ceil(STEP).max(1);
        let mut widened = vec![[0_i16; STEP]; length];
        for (at, (vector, factor)) in self.numbers.chunks_exact(length).zip(&self.factors).enumerate() {
            widen(vector, &mut widened); // Once for all texts.
            for (text, out) in &mut columns {
                out[at] = dot_product(&widened, &text.numbers) as f32 * (text.factor * factor);
            }
        }
    }
}

// Plain loops over arrays: the compiler does not always inline iterators, and then does not vectorise them.

fn widen(numbers: &[[i8; STEP]], widened: &mut [[i16; STEP]]) {
    for (step, wide) in widened.iter_mut().enumerate() {
        let Some(numbers) = numbers.get(step) else { return };
        for at in 0..STEP {
            wide[at] = i16::from(numbers[at]);
        }
    }
}

fn dot_product(a: &[[i16; STEP]], b: &[[i16; STEP]]) -> i32 {
    let mut sum = 0;
    for (step, a) in a.iter().enumerate() {
        let Some(b) = b.get(step) else { return sum };
        let mut product = 0;
        for at in 0..STEP {
            product += i32::from(a[at]) * i32::from(b[at]);
        }
        sum += product;
    }
    sum
}

/// Numbers in steps; the last one is padded with zeros.
fn steps(numbers: &[i8]) -> impl Iterator<Item = [i8; STEP]> {
    numbers.chunks(STEP).map(|some| std::array::from_fn(|at| some.get(at).copied().unwrap_or_default()))
}

/// The vector of a text, prepared for comparison with many vectors.
pub(crate) struct QueryVector {
    width: usize,
    numbers: Vec<[i16; STEP]>,
    factor: f32,
}

impl QueryVector {
    /// Prepares a vector; `None` has similarity 0 to everything.
    pub(crate) fn of(vector: Option<&Vector>) -> Self {
        let numbers = vector.map_or(&[][..], |vector| &vector.bytes);
        Self {
            width: numbers.len(),
            numbers: steps(numbers).map(|step| step.map(i16::from)).collect(),
            factor: vector.map_or(0.0, |vector| vector.factor),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pseudo-random numbers, always the same for a seed.
    fn vector(seed: u64, width: usize) -> Vector {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 40) as f32 / 8_388_608.0 - 1.0
        };
        let numbers: Vec<f32> = (0..width).map(|_| next()).collect();
        Vector::of(&numbers).expect("a direction")
    }

    #[test]
    fn similarities_are_exact_whatever_the_width() {
        for (width, count) in [(1, 5), (2, 16), (63, 33), (64, 17), (65, 1), (256, 40), (301, 15)] {
            let rows: Vec<Vector> = (0..count).map(|seed| vector(seed, width)).collect();
            let mut vectors = Vectors::with_room(width, rows.len());
            rows.iter().for_each(|row| vectors.push(Some(row)));
            vectors.push(None);
            for asked in 0..=9 {
                let texts: Vec<Vector> = (0..asked).map(|seed| vector(100 + seed, width)).collect();
                let sought: Vec<QueryVector> = texts.iter().map(|text| QueryVector::of(Some(text))).collect();
                let mut out = vec![vec![7.0; vectors.len() + 2]; texts.len()];
                vectors.compare(&sought, &mut out);
                for (text, out) in texts.iter().zip(&out) {
                    let expected = |row: &Vector| {
                        let sum: i32 = row
                            .bytes
                            .iter()
                            .zip(&text.bytes)
                            .map(|(a, b)| i32::from(*a) * i32::from(*b))
                            .sum();
                        sum as f32 * (text.factor * row.factor)
                    };
                    let expected: Vec<f32> = rows.iter().map(expected).collect();
                    assert_eq!(out[..rows.len()], expected, "{asked} texts of width {width}");
                    assert_eq!(out[rows.len()..], [0.0, 7.0, 7.0], "nothing else is written");
                }
            }
        }
    }

    #[test]
    fn a_vector_of_another_width_has_no_similarity() {
        let mut vectors = Vectors::with_room(32, 1);
        vectors.push(Some(&vector(1, 32)));
        vectors.push(Some(&vector(1, 148)));
        let mut out = [vec![0.0; 2], vec![0.0; 2], vec![0.0; 2]];
        vectors.compare(
            &[
                QueryVector::of(Some(&vector(2, 148))),
                QueryVector::of(None),
                QueryVector::of(Some(&vector(1, 32))),
            ],
            &mut out,
        );
        assert_eq!((&out[0], &out[1]), (&vec![0.0; 2], &vec![0.0; 2]));
        assert!(out[2][0] > 0.99 && out[2][1] == 0.0);
    }
}
