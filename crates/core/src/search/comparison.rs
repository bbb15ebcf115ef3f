//! Likeness: all tools' vectors against a few texts' at once, in one pass.

#[cfg(target_arch = "x86_64")]
mod wide;

use super::meaning::Vector;

/// So many vectors lie in one block, their numbers side by side: each has a lane of its own in a processor's widest
/// registers, and nothing need be added up across lanes.
const LANES: usize = 16;

/// The next four numbers of each vector of a block.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Fours([[i8; 4]; LANES]);

/// Vectors of the same width.
#[derive(Debug, Default)]
pub(super) struct Vectors {
    width: usize,
    /// Block after block; the last is filled up with zeros.
    numbers: Vec<Fours>,
    /// By block, the sum of each vector's numbers.
    totals: Vec<[i32; LANES]>,
    factors: Vec<f32>,
}

/// Some vectors: as many as there are lanes, or what is left.
#[derive(Clone, Copy)]
struct Block<'a> {
    fours: &'a [Fours],
    totals: &'a [i32; LANES],
    factors: &'a [f32],
}

impl Vectors {
    /// None yet, with room for `count`.
    pub(super) fn with_room(width: usize, count: usize) -> Self {
        let blocks = count.div_ceil(LANES);
        Self {
            width,
            numbers: Vec::with_capacity(width.div_ceil(4) * blocks),
            totals: Vec::with_capacity(blocks),
            factors: Vec::with_capacity(count),
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.factors.len()
    }

    /// Adds one; what has no direction or another width is like nothing.
    pub(super) fn push(&mut self, vector: Option<&Vector>) {
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

    /// Writes how like each of them is to each text, from -1 to 1, into the list of that text.
    pub(super) fn compare(&self, texts: &[Sought], out: &mut [Vec<f32>]) {
        // What has another width cannot be compared: it stays like nothing.
        let fitting = texts.iter().zip(out).filter(|(text, _)| text.width == self.width);
        let mut columns: Vec<Column<'_>> = fitting
            .filter_map(|(text, out)| Some(Column { text, out: out.get_mut(..self.len())? }))
            .collect();
        // Vectors are the long part. Each is fetched once, for six texts at a time.
        #[cfg(target_arch = "x86_64")]
        if wide::pass(self, &mut columns) {
            return;
        }
        self.pass(&mut columns);
    }

    /// The vectors block by block.
    #[inline(always)]
    fn blocks(&self) -> impl Iterator<Item = Block<'_>> {
        let fours = self.numbers.chunks_exact(self.width.div_ceil(4).max(1));
        let blocks = fours.zip(&self.totals).zip(self.factors.chunks(LANES));
        blocks.map(|((fours, totals), factors)| Block { fours, totals, factors })
    }

    /// The pass as every processor can make it.
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

/// Numbers by fours; the last is filled up with zeros.
fn fours_of(numbers: &[i8]) -> impl Iterator<Item = [i8; 4]> {
    numbers.chunks(4).map(|some| std::array::from_fn(|at| some.get(at).copied().unwrap_or_default()))
}

/// A text that vectors are compared with, made ready for a loop over many of them.
pub(super) struct Sought {
    width: usize,
    numbers: Vec<[i16; 4]>,
    /// The same, each `RAISED` more.
    raised: Vec<[u8; 4]>,
    factor: f32,
}

/// What makes every number of a vector one without a sign.
const RAISED: u8 = 128;

impl Sought {
    /// A text that means nothing is like nothing.
    pub(super) fn of(vector: Option<&Vector>) -> Self {
        let numbers = vector.map_or(&[][..], |vector| &vector.bytes);
        Self {
            width: numbers.len(),
            numbers: fours_of(numbers).map(|four| four.map(i16::from)).collect(),
            raised: fours_of(numbers)
                .map(|four| four.map(|n| n.cast_unsigned().wrapping_add(RAISED)))
                .collect(),
            factor: vector.map_or(0.0, |vector| vector.factor),
        }
    }
}

/// A text, and where likeness to it is written.
struct Column<'a> {
    text: &'a Sought,
    out: &'a mut [f32],
}

impl Column<'_> {
    /// Writes what one block is like; the last may have fewer vectors than lanes.
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

    /// Numbers that look like chance and are always the same.
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
    fn every_way_of_comparing_says_the_same() {
        for (width, count) in [(1, 5), (2, 16), (63, 33), (64, 17), (65, 1), (256, 40), (301, 15)] {
            let rows: Vec<Vector> = (0..count).map(|seed| vector(seed, width)).collect();
            let mut vectors = Vectors::with_room(width, rows.len());
            rows.iter().for_each(|row| vectors.push(Some(row)));
            vectors.push(None);
            for asked in 0..=9 {
                let texts: Vec<Vector> = (0..asked).map(|seed| vector(100 + seed, width)).collect();
                let sought: Vec<Sought> = texts.iter().map(|text| Sought::of(Some(text))).collect();
                let mut out = vec![vec![7.0; vectors.len() + 2]; texts.len()];
                vectors.compare(&sought, &mut out);
                let mut plainly = vec![vec![0.0; vectors.len()]; texts.len()];
                let columns = sought.iter().zip(&mut plainly);
                let mut columns: Vec<Column<'_>> = columns.map(|(text, out)| Column { text, out }).collect();
                vectors.pass(&mut columns);
                // Where the best instructions are, those of other processors would never be tried.
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
                    assert_eq!(out[rows.len()..], [0.0, 7.0, 7.0], "no other place is touched");
                }
            }
        }
    }

    #[test]
    fn another_width_is_like_nothing() {
        let mut vectors = Vectors::with_room(32, 1);
        vectors.push(Some(&vector(1, 32)));
        vectors.push(Some(&vector(1, 148)));
        let mut out = [vec![0.0; 2], vec![0.0; 2], vec![0.0; 2]];
        vectors.compare(
            &[Sought::of(Some(&vector(2, 148))), Sought::of(None), Sought::of(Some(&vector(1, 32)))],
            &mut out,
        );
        assert_eq!((&out[0], &out[1]), (&vec![0.0; 2], &vec![0.0; 2]));
        assert!(out[2][0] > 0.99 && out[2][1] == 0.0);
    }
}
