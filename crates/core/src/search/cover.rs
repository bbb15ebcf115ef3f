//! Cover: a request of several clauses gets a tool for each of them early, not only tools for the clause that is met
//! best.

use super::names::Naming;
use super::weights::WEIGHTS;

/// So many of the best tools are looked at for what the first hits leave uncovered.
pub(super) const LOOKED_AT: usize = 40;

/// A tool that may be a hit: how well its name was given, its score and its place.
pub(super) type Candidate = (Option<Naming>, f32, usize);

/// Puts the first `count` of these, best first, in an order in which each clause has its tool early. The best stays the
/// first. Of the others each counts more, the better it meets a clause that those before it do not.
pub(super) fn spread(found: &mut [Candidate], clauses: &[Vec<f32>], count: usize) {
    let mut covered = vec![0_f32; clauses.len()];
    for at in 0..count.min(found.len()) {
        if at > 0 {
            let mut best = (at, f32::MIN);
            for (other, (_, score, place)) in found.iter().enumerate().skip(at) {
                let gains = clauses.iter().zip(&covered).map(|(clause, covered)| clause[*place] - covered);
                let worth = score + WEIGHTS.cover * gains.fold(0.0, f32::max);
                if worth > best.1 {
                    best = (other, worth);
                }
            }
            found[at..=best.0].rotate_right(1); // Those that are passed over stay in order.
            found[at].1 = best.1.min(found[at - 1].1);
        }
        let place = found[at].2;
        for (covered, clause) in covered.iter_mut().zip(clauses) {
            *covered = covered.max(clause[place]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(found: &[Candidate]) -> Vec<usize> {
        found.iter().map(|(_, _, place)| *place).collect()
    }

    #[test]
    fn what_is_left_uncovered_counts_more() {
        // Three tools for the first clause, and a slightly worse one for the second.
        let clauses = [vec![1.0, 0.9, 0.9, 0.1], vec![0.1, 0.1, 0.1, 0.9]];
        let scores = [(None, 0.80, 0), (None, 0.75, 1), (None, 0.74, 2), (None, 0.70, 3)];
        let mut found = scores;
        spread(&mut found, &clauses, 4);
        assert_eq!(places(&found), [0, 3, 1, 2]);
        assert!(found.is_sorted_by(|a, b| a.1 >= b.1), "{found:?}");
        let mut found = scores;
        spread(&mut found, &clauses, 1);
        assert_eq!(found, scores, "the best stays the first");
    }

    #[test]
    fn what_fits_much_worse_stays_behind() {
        let clauses = [vec![1.0, 0.9, 0.1], vec![0.1, 0.1, 0.9]];
        let mut found = [(None, 0.80, 0), (None, 0.75, 1), (None, 0.50, 2)];
        spread(&mut found, &clauses, 3);
        assert_eq!(places(&found), [0, 1, 2]);
        spread(&mut [], &clauses, 3);
    }
}
