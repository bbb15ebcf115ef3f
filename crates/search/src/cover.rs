//! Coverage of clauses: the first hits of a request with several clauses should include a tool for each clause, not
//! only for the clause that matches best.

use crate::names::NameMatch;
use crate::weights::WEIGHTS;

/// Number of best tools that are considered for clauses not yet covered.
pub(crate) const MAX_CANDIDATES: usize = 40;

/// A possible hit: how its name matched, its score and its position.
pub(crate) type HitCandidate = (Option<NameMatch>, f32, usize);

/// Reorders the first `count` candidates so that each clause has a tool early. Expects the best first. The best stays
/// first. Each later one gains by how well it fits a clause that the ones before it do not.
pub(crate) fn cover_clauses(found: &mut [HitCandidate], clauses: &[Vec<f32>], count: usize) {
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
            found[at..=best.0].rotate_right(1); // Keeps the order of the skipped ones.
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

    fn places(found: &[HitCandidate]) -> Vec<usize> {
        found.iter().map(|(_, _, place)| *place).collect()
    }

    #[test]
    fn a_tool_for_an_uncovered_clause_moves_up() {
        // Three tools for the first clause, and a slightly worse one for the second.
        let clauses = [vec![1.0, 0.9, 0.9, 0.1], vec![0.1, 0.1, 0.1, 0.9]];
        let scores = [(None, 0.80, 0), (None, 0.75, 1), (None, 0.74, 2), (None, 0.70, 3)];
        let mut found = scores;
        cover_clauses(&mut found, &clauses, 4);
        assert_eq!(places(&found), [0, 3, 1, 2]);
        assert!(found.is_sorted_by(|a, b| a.1 >= b.1), "{found:?}");
        let mut found = scores;
        cover_clauses(&mut found, &clauses, 1);
        assert_eq!(found, scores, "the best stays the first");
    }

    #[test]
    fn a_tool_with_a_much_lower_score_stays_behind() {
        let clauses = [vec![1.0, 0.9, 0.1], vec![0.1, 0.1, 0.9]];
        let mut found = [(None, 0.80, 0), (None, 0.75, 1), (None, 0.50, 2)];
        cover_clauses(&mut found, &clauses, 3);
        assert_eq!(places(&found), [0, 1, 2]);
        cover_clauses(&mut [], &clauses, 3);
    }
}
