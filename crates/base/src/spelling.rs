//! Suggestions for misspelt words.

/// The longest word worth comparing: beyond it no suggestion is made.
const WORD_MAX: usize = 32;

/// The candidate that a person most likely meant by `word`, if one is close enough.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.chars().count() > WORD_MAX {
        return None;
    }
    // A third of the letters may be wrong: `macsce` is `macsec`, `mpsl` is `mpls`, `xyz` nothing.
    let limit = word.chars().count().div_ceil(3);
    candidates
        .into_iter()
        .map(|candidate| {
            let begins = word.len() >= 3 && candidate.starts_with(word);
            let cost = if begins { 1 } else { edit_distance(word, candidate) };
            (cost, candidate)
        })
        .filter(|(cost, _)| *cost <= limit)
        .min_by_key(|(cost, _)| *cost)
        .map(|(_, candidate)| candidate)
}

/// Letters inserted, removed, replaced, or swapped with their neighbour (optimal string alignment).
fn edit_distance(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.chars().collect();
    let to: Vec<char> = to.chars().collect();
    let mut rows = vec![vec![0; to.len() + 1]; from.len() + 1];
    for i in 0..=from.len() {
        for j in 0..=to.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let replaced = rows[i - 1][j - 1] + usize::from(from[i - 1] != to[j - 1]);
                let best = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                let swap = i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
                if swap { best.min(rows[i - 2][j - 2] + 1) } else { best }
            };
        }
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_word_has_a_third_of_its_letters_wrong_at_most() {
        let near = |word| nearest(word, ["macsec", "mpls", "tunnel"]);
        assert_eq!(near("macsce"), Some("macsec"), "letters swapped");
        assert_eq!(near("mls"), Some("mpls"), "one left out");
        assert_eq!(near("tun"), Some("tunnel"), "the rest left out");
        assert_eq!(near("xyz"), None);
        assert_eq!(near(&"macsec".repeat(6)), None, "too long to compare");
    }
}
