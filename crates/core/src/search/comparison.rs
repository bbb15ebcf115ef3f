//! Likeness: all tools' vectors against a few texts' at once, in one pass.

#[cfg(target_arch = "x86_64")]
mod wide;

use super::meaning::Vector;

/// Vectors are filled up with zeros to a multiple of this: to whole lines of a processor's cache.
const STEP: usize = 64;

/// As many numbers as are fetched from memory at once.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Step([i8; STEP]);

/// Vectors of the same width, one after the other.
#[derive(Debug, Default)]
pub(super) struct Vectors {
    width: usize,
    numbers: Vec<Step>,
    factors: Vec<f32>,
}

impl Vectors {
    /// None yet, with room for `count`.
    pub(super) fn with_room(width: usize, count: usize) -> Self {
        let steps = width.div_ceil(STEP) * count;
        Self { width, numbers: Vec::with_capacity(steps), factors: Vec::with_capacity(count) }
    }

    /// Adds others of the same width.
    pub(super) fn append(&mut self, mut others: Self) {
        self.numbers.append(&mut others.numbers);
        self.factors.append(&mut others.factors);
    }

    /// Adds copies of others of the same width.
    pub(super) fn extend(&mut self, others: &Self) {
        self.numbers.extend_from_slice(&others.numbers);
        self.factors.extend_from_slice(&others.factors);
    }

    /// Gives back the room that was not needed.
    pub(super) fn shrink_to_fit(&mut self) {
        self.numbers.shrink_to_fit();
        self.factors.shrink_to_fit();
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.factors.len()
    }

    /// Adds one; what has no direction is like nothing.
    pub(super) fn push(&mut self, vector: Option<&Vector>) {
        let vector = vector.filter(|vector| vector.width() == self.width);
        let zeros = || std::iter::repeat_n(Step([0; STEP]), self.width.div_ceil(STEP));
        match vector {
            Some(vector) => {
                self.numbers.extend(vector.bytes.chunks(STEP).map(|chunk| Step(filled_up(chunk))))
            }
            None => self.numbers.extend(zeros()),
        }
        self.factors.push(vector.map_or(0.0, |vector| vector.factor));
    }

    /// Writes how like each of them is to each text, from -1 to 1, into the list of that text.
    pub(super) fn compare(&self, texts: &[Sought], out: &mut [Vec<f32>]) {
        // What has another width cannot be compared: it stays like nothing.
        let steps = self.width.div_ceil(STEP);
        let fitting = texts.iter().zip(out).filter(|(text, _)| text.numbers.len() == steps && steps > 0);
        let mut columns: Vec<Column<'_>> = fitting
            .filter_map(|(text, out)| Some(Column { text, out: out.get_mut(..self.len())? }))
            .collect();
        // Rows are the long part. Each is fetched once, for six texts at a time.
        #[cfg(target_arch = "x86_64")]
        if wide::pass(self, &mut columns) {
            return;
        }
        self.pass(&mut columns);
    }

    /// How many steps a vector has.
    #[inline(always)]
    fn steps(&self) -> usize {
        self.width.div_ceil(STEP).max(1)
    }

    /// The pass as every processor can make it.
    fn pass(&self, columns: &mut [Column<'_>]) {
        for ((place, row), factor) in self.numbers.chunks_exact(self.steps()).enumerate().zip(&self.factors) {
            for column in &mut *columns {
                let sum =
                    row.iter().zip(&column.text.numbers).map(|(row, text)| products(&row.0, text)).sum();
                column.put(place, sum, *factor);
            }
        }
    }
}

fn filled_up(numbers: &[i8]) -> [i8; STEP] {
    let mut step = [0; STEP];
    step.iter_mut().zip(numbers).for_each(|(place, number)| *place = *number);
    step
}

fn products(row: &[i8; STEP], text: &[i16; STEP]) -> i32 {
    row.iter().zip(text).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum()
}

/// A text that vectors are compared with, made ready for a loop over many of them.
pub(super) struct Sought {
    numbers: Vec<[i16; STEP]>,
    factor: f32,
}

impl Sought {
    /// A text that means nothing is like nothing.
    pub(super) fn of(vector: Option<&Vector>) -> Self {
        let numbers = |vector: &Vector| {
            vector.bytes.chunks(STEP).map(|chunk| filled_up(chunk).map(i16::from)).collect()
        };
        Self {
            numbers: vector.map(numbers).unwrap_or_default(),
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
    #[inline(always)]
    fn put(&mut self, place: usize, sum: i32, factor: f32) {
        self.out[place] = sum as f32 * (self.text.factor * factor);
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
        for width in [1, 63, 64, 65, 256, 300] {
            let rows: Vec<Vector> = (0..5).map(|seed| vector(seed, width)).collect();
            let mut vectors = Vectors::with_room(width, rows.len());
            rows.iter().for_each(|row| vectors.push(Some(row)));
            vectors.push(None);
            for count in 0..=9 {
                let texts: Vec<Vector> = (0..count).map(|seed| vector(100 + seed, width)).collect();
                let sought: Vec<Sought> = texts.iter().map(|text| Sought::of(Some(text))).collect();
                let mut out = vec![vec![7.0; 8]; texts.len()];
                vectors.compare(&sought, &mut out);
                let mut plainly = vec![vec![0.0; vectors.len()]; texts.len()];
                let columns = sought.iter().zip(&mut plainly);
                let mut columns: Vec<Column<'_>> = columns.map(|(text, out)| Column { text, out }).collect();
                vectors.pass(&mut columns);
                for (plainly, out) in plainly.iter().zip(&out) {
                    assert_eq!(plainly[..], out[..6], "{count} texts of width {width}");
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
                    assert_eq!(out[..5], expected, "{count} texts of width {width}");
                    assert_eq!(out[5..], [0.0, 7.0, 7.0], "no other place is touched");
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
