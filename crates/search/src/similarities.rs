//! Similarities of tools to a text, as the table or an encoder computes them.

use crate::index::VisibleTools;
use crate::weights::WEIGHTS;

/// The similarities of tools to one text.
pub(crate) struct Similarities {
    raw: Vec<f32>,
    /// Similarities up to this value count as none: unrelated texts reach it as well.
    floor: f32,
    /// Scales the largest similarity above the floor to 1.
    factor: f32,
    /// The largest similarity: a measure of confidence in all of them.
    nearest: f32,
}

impl Similarities {
    /// Takes raw similarities; those of hidden tools count as 0.
    pub(crate) fn of(view: &VisibleTools, mut raw: Vec<f32>) -> Self {
        if !view.is_whole() {
            // Hidden tools must not change any score.
            (0..raw.len()).filter(|place| !view.has(*place)).for_each(|place| raw[place] = 0.0);
        }
        let nearest = largest(&raw);
        let floor = (sum(&raw) / view.count.max(1) as f32).max(0.0) * WEIGHTS.floor;
        let factor = if nearest > floor { 1.0 / (nearest - floor) } else { 0.0 };
        Self { raw, floor, factor, nearest }
    }

    /// The scores of all tools, from 0 to 1.
    pub(crate) fn scores(&self) -> impl Iterator<Item = f32> {
        self.raw.iter().map(|value| (value - self.floor).max(0.0) * self.factor)
    }

    /// Combines two engines: each knows words that the other does not, and the more confident one counts more.
    pub(crate) fn joined(&self, other: &Self) -> Self {
        let both = self.scores().zip(other.scores());
        let raw: Vec<f32> =
            both.map(|(score, others)| score * self.nearest + others * other.nearest).collect();
        let nearest = largest(&raw);
        let factor = if nearest > 0.0 { 1.0 / nearest } else { 0.0 };
        Self { raw, floor: 0.0, factor, nearest }
    }
}

/// The largest score, at least 0. Lane by lane, so that the compiler vectorises it.
pub(crate) fn largest(scores: &[f32]) -> f32 {
    let (chunks, rest) = scores.as_chunks::<8>();
    let lanes = chunks.iter().fold([0_f32; 8], |mut lanes, chunk| {
        lanes
            .iter_mut()
            .zip(chunk)
            .for_each(|(lane, score)| *lane = if *score > *lane { *score } else { *lane });
        lanes
    });
    lanes.iter().chain(rest).copied().fold(0.0, f32::max)
}

fn sum(scores: &[f32]) -> f32 {
    let (chunks, rest) = scores.as_chunks::<8>();
    let lanes = chunks.iter().fold([0_f32; 8], |mut lanes, chunk| {
        lanes.iter_mut().zip(chunk).for_each(|(lane, score)| *lane += score);
        lanes
    });
    lanes.iter().chain(rest).sum()
}
