//! Meaning: a text as one vector, the sum of what its pieces mean. Vectors of texts that are about the same thing
//! point the same way.

use super::pieces::{Vocabulary, each_token};
use std::collections::HashMap;

static TABLE: &[u8] = include_bytes!("table/table.i8");
static SCALES: &[u8] = include_bytes!("table/scale.f32");

const ROWS: usize = SCALES.len() / 4;
/// How many numbers a vector of the table has.
pub(super) const WIDTH: usize = TABLE.len() / ROWS;

/// No text is read further than this many pieces.
const MAX_PIECES: usize = 1_000;

/// A direction: bytes and the factor that makes its length one.
#[derive(Debug, Clone)]
pub struct Vector {
    bytes: Box<[i8]>,
    factor: f32,
}

impl Vector {
    /// A vector of these numbers, scaled to length one; none where they are all zero or not numbers.
    pub fn of(numbers: &[f32]) -> Option<Self> {
        let length = numbers.iter().map(|n| n * n).sum::<f32>().sqrt();
        let most = numbers.iter().fold(0_f32, |most, n| most.max(n.abs()));
        if !length.is_finite() || length <= 0.0 {
            return None;
        }
        let step = most / 127.0;
        // Rounded to what a byte holds: the cast cannot lose more.
        let bytes = numbers.iter().map(|n| (n / step).round() as i8).collect();
        Some(Self { bytes, factor: step / length })
    }

    /// How many numbers it has.
    pub(super) fn width(&self) -> usize {
        self.bytes.len()
    }

    /// What [`Vectors::compare`] multiplies by.
    pub(super) fn factor(&self) -> f32 {
        self.factor
    }

    /// Its numbers, for a loop over many vectors.
    pub(super) fn wide(&self) -> Vec<i16> {
        self.bytes.iter().map(|byte| i16::from(*byte)).collect()
    }
}

/// Adds up what the pieces of texts mean. Words that came before are remembered.
#[derive(Default)]
pub(super) struct Reader {
    known: HashMap<Box<str>, (u32, u32)>,
    rows: Vec<u16>,
}

impl Reader {
    /// Adds the pieces of a text, each counted `weight` times.
    pub(super) fn add(&mut self, sum: &mut [f32; WIDTH], text: &str, weight: f32) {
        let vocabulary = Vocabulary::get();
        let mut left = MAX_PIECES;
        each_token(text, &mut |token: &str| {
            if left == 0 {
                return;
            }
            let (from, to) = match self.known.get(token) {
                Some(known) => *known,
                None => {
                    let from = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
                    vocabulary.rows(token, &mut self.rows);
                    let to = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
                    self.known.insert(token.into(), (from, to));
                    (from, to)
                }
            };
            for row in self.rows.get(from as usize..to as usize).unwrap_or_default() {
                left = left.saturating_sub(1);
                add_row(sum, usize::from(*row), weight);
            }
        });
    }
}

fn add_row(sum: &mut [f32; WIDTH], row: usize, weight: f32) {
    let (Some(bytes), Some(scale)) =
        (TABLE.get(row * WIDTH..(row + 1) * WIDTH), SCALES.get(row * 4..row * 4 + 4))
    else {
        return;
    };
    let scale = f32::from_le_bytes([scale[0], scale[1], scale[2], scale[3]]) * weight;
    for (sum, byte) in sum.iter_mut().zip(bytes) {
        *sum += f32::from(*byte as i8) * scale;
    }
}

/// Vectors of the same width, one after the other.
#[derive(Debug, Default)]
pub(super) struct Vectors {
    width: usize,
    bytes: Vec<i8>,
    factors: Vec<f32>,
}

impl Vectors {
    /// None yet, with room for `count`.
    pub(super) fn with_room(width: usize, count: usize) -> Self {
        Self { width, bytes: Vec::with_capacity(width * count), factors: Vec::with_capacity(count) }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.factors.len()
    }

    /// Adds one; what has no direction is like nothing.
    pub(super) fn push(&mut self, vector: Option<&Vector>) {
        match vector.filter(|vector| vector.bytes.len() == self.width) {
            Some(vector) => {
                self.bytes.extend_from_slice(&vector.bytes);
                self.factors.push(vector.factor);
            }
            None => {
                self.bytes.resize(self.bytes.len() + self.width, 0);
                self.factors.push(0.0);
            }
        }
    }

    /// Writes how like each of them is to `query`, from -1 to 1.
    pub(super) fn compare(&self, query: &[i16], factor: f32, out: &mut [f32]) {
        if query.len() != self.width {
            return out.fill(0.0);
        }
        pulp::Arch::new().dispatch(Comparison { vectors: self, query, factor, out });
    }
}

/// One pass over all vectors, compiled for each kind of processor: the widest that this one has is taken.
struct Comparison<'a> {
    vectors: &'a Vectors,
    query: &'a [i16],
    factor: f32,
    out: &'a mut [f32],
}

impl pulp::WithSimd for Comparison<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let rows = self.vectors.bytes.chunks_exact(self.vectors.width.max(1));
        for ((out, row), own) in self.out.iter_mut().zip(rows).zip(&self.vectors.factors) {
            *out = dot(self.query, row) as f32 * (self.factor * own);
        }
    }
}

#[inline(always)]
fn dot(query: &[i16], row: &[i8]) -> i32 {
    query.iter().zip(row).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum()
}

/// The meaning of one text.
pub(super) fn meaning(text: &str) -> Option<Vector> {
    let mut sum = [0_f32; WIDTH];
    Reader::default().add(&mut sum, text, 1.0);
    Vector::of(&sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn likeness(a: &str, b: &str) -> f32 {
        let mut vectors = Vectors::with_room(WIDTH, 1);
        vectors.push(meaning(b).as_ref());
        let query = meaning(a).expect("a meaning");
        let mut out = [0.0];
        vectors.compare(&query.wide(), query.factor(), &mut out);
        out[0]
    }

    #[test]
    fn the_table_fits_its_vocabulary() {
        assert_eq!(TABLE.len(), ROWS * WIDTH);
    }

    #[test]
    fn like_texts_are_alike() {
        assert!(likeness("send an email", "send an email") > 0.98);
        let near = likeness("send an email to a colleague", "deliver a mail message");
        let far = likeness("send an email to a colleague", "current weather of a city");
        assert!(near > far + 0.2, "{near} {far}");
        assert!(meaning("").is_none());
    }
}
