//! Compares the vectors of all tools with those of a few texts in one pass (cosine similarity).

#[cfg(target_arch = "x86_64")]
mod wide;

use crate::meaning::Vector;

/// Number of vectors in one block, with their numbers interleaved: each vector has its own lane in the widest
/// registers, so no sums across lanes are needed.
const LANES: usize = 16;

/// The next four numbers of each vector of a block.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Fours([[i8; 4]; LANES]);

/// A list of vectors of the same width.
#[derive(Debug, Default)]
pub(crate) struct Vectors {
    width: usize,
    /// Block after block; the last is padded with zeros.
    numbers: Vec<Fours>,
    /// By block: the sum of each vector's numbers.
    totals: Vec<[i32; LANES]>,
    factors: Vec<f32>,
}

/// A block of up to `LANES` vectors.
#[derive(Clone, Copy)]
struct VectorBlock<'a> {
    fours: &'a [Fours],
    totals: &'a [i32; LANES],
    factors: &'a [f32],
}

impl Vectors {
    /// An empty list with capacity for `count` vectors.
    pub(crate) fn with_room(width: usize, count: usize) -> Self {
        let blocks = count.div_ceil(LANES);
        Self {
            width,
            numbers: Vec::with_capacity(width.div_ceil(4) * blocks),
            totals: Vec::with_capacity(blocks),
            factors: Vec::with_capacity(count),
        }
    }

    /// The number of vectors.
    pub(crate) fn len(&self) -> usize {
        self.factors.len()
    }

    /// Appends a vector; a missing one, or one of another width, has similarity 0 to everything.
    pub(crate) fn push(&mut self, vector: Option<&Vector>) {
        let vector = vector.filter(|vector| vector.width() == self.width);
        let (fours, lane) = (self.width.div_ceil(4), self.len() % LANES);
        if lane == 0 {
            self.numbers.resize(self.numbers.len() + fours, Fours([[0; 4]; LANES]));
            self.totals.push([0; LANES]);
        }
        let block = self.numbers.len() - fours;
        let numbers = vector.map_or(&[][..], |vector| &vector.bytes);
        for (Fours(lanes), four) in self.numbers[block..].iter_mut().zip(fours_of(numbers)) {
            lanes[lane] = four;
        }
        if let Some(totals) = self.totals.last_mut() {
            totals[lane] = numbers.iter().map(|number| i32::from(*number)).sum();
        }
        self.factors.push(vector.map_or(0.0, |vector| vector.factor));
    }

    /// Writes the similarity of each vector to each text, from -1 to 1, into the list of that text.
    pub(crate) fn compare(&self, texts: &[QueryVector], out: &mut [Vec<f32>]) {
        // A text of another width cannot be compared: its list is left as it is.
        let fitting = texts.iter().zip(out).filter(|(text, _)| text.width == self.width);
        let mut columns: Vec<Column<'_>> = fitting
            .filter_map(|(text, out)| Some(Column { text, out: out.get_mut(..self.len())? }))
            .collect();
        // The vectors take most of the time. Each is read once for six texts.
        #[cfg(target_arch = "x86_64")]
        if wide::pass(self, &mut columns) {
            return;
        }
        self.pass(&mut columns);
    }

    /// The vectors, block by block.
    #[inline(always)]
    fn blocks(&self) -> impl Iterator<Item = VectorBlock<'_>> {
        let fours = self.numbers.chunks_exact(self.width.div_ceil(4).max(1));
        let blocks = fours.zip(&self.totals).zip(self.factors.chunks(LANES));
        blocks.map(|((fours, totals), factors)| VectorBlock { fours, totals, factors })
    }

    /// The portable comparison.
    fn pass(&self, columns: &mut [Column<'_>]) {
        for (at, block) in self.blocks().enumerate() {
            for column in &mut *columns {
                let mut sums = [0; LANES];
                for (Fours(lanes), text) in block.fours.iter().zip(&column.text.numbers) {
                    let text = text.map(i32::from);
                    for (sum, four) in sums.iter_mut().zip(lanes) {
                        let [a, b, c, d] = four.map(i32::from);
                        *sum += a * text[0] + b * text[1] + c * text[2] + d * text[3];
                    }
                }
                column.put(at, sums, block.factors);
            }
        }
    }
}

/// Numbers in groups of four; the last group is padded with zeros.
fn fours_of(numbers: &[i8]) -> impl Iterator<Item = [i8; 4]> {
    numbers.chunks(4).map(|some| std::array::from_fn(|at| some.get(at).copied().unwrap_or_default()))
}

/// The vector of a text, prepared for comparison with many vectors.
pub(crate) struct QueryVector {
    width: usize,
    numbers: Vec<[i16; 4]>,
    /// The same numbers with `OFFSET` added.
    unsigned: Vec<[u8; 4]>,
    factor: f32,
}

/// Offset that makes every number of a vector unsigned.
const OFFSET: u8 = 128;

impl QueryVector {
    /// Prepares a vector; `None` has similarity 0 to everything.
    pub(crate) fn of(vector: Option<&Vector>) -> Self {
        let numbers = vector.map_or(&[][..], |vector| &vector.bytes);
        Self {
            width: numbers.len(),
            numbers: fours_of(numbers).map(|four| four.map(i16::from)).collect(),
            unsigned: fours_of(numbers)
                .map(|four| four.map(|n| n.cast_unsigned().wrapping_add(OFFSET)))
                .collect(),
            factor: vector.map_or(0.0, |vector| vector.factor),
        }
    }
}

/// A text and the list that its similarities are written to.
struct Column<'a> {
    text: &'a QueryVector,
    out: &'a mut [f32],
}

impl Column<'_> {
    /// Writes the similarities of one block; the last may have fewer vectors than lanes.
    #[inline(always)]
    fn put(&mut self, block: usize, sums: [i32; LANES], factors: &[f32]) {
        let out = &mut self.out[block * LANES..][..factors.len()];
        for ((out, sum), factor) in out.iter_mut().zip(sums).zip(factors) {
            *out = sum as f32 * (self.text.factor * factor);
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
    fn every_instruction_set_gives_the_same_result() {
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
                let mut plainly = vec![vec![0.0; vectors.len()]; texts.len()];
                let columns = sought.iter().zip(&mut plainly);
                let mut columns: Vec<Column<'_>> = columns.map(|(text, out)| Column { text, out }).collect();
                vectors.pass(&mut columns);
                // The best instruction set of this machine would hide the others.
                #[cfg(target_arch = "x86_64")]
                for pass in wide::PASSES {
                    let mut other = vec![vec![0.0; vectors.len()]; texts.len()];
                    let columns = sought.iter().zip(&mut other);
                    let mut columns: Vec<Column<'_>> =
                        columns.map(|(text, out)| Column { text, out }).collect();
                    if pass(&vectors, &mut columns) {
                        assert_eq!(plainly, other, "{asked} texts of width {width}");
                    }
                }
                for (plainly, out) in plainly.iter().zip(&out) {
                    assert_eq!(plainly[..], out[..vectors.len()], "{asked} texts of width {width}");
                }
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
