//! Which known name a misspelt one was meant to be.

/// More edits than these make another word.
const MOST_EDITS: usize = 2;

/// The known name that is nearest to an unknown one, if any is near.
pub(super) fn nearest<'a>(unknown: &str, known: &[&'a str]) -> Option<&'a str> {
    let unknown = unknown.to_lowercase();
    let distances = known.iter().map(|name| (edits(&unknown, &name.to_lowercase()), *name));
    // In a short name two edits change most of it.
    let near = distances.filter(|(edits, name)| *edits <= MOST_EDITS && *edits * 2 < name.len());
    near.min_by_key(|(edits, _)| *edits).map(|(_, name)| name)
}

/// How many letters have to be put in, taken out or replaced (Levenshtein's distance).
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    // The distances from what has been read of `from` to every beginning of `to`.
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for letter in from.chars() {
        let mut diagonal = row[0];
        row[0] += 1;
        for (position, other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[position + 1];
            row[position + 1] = replaced.min(row[position] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_suggested() {
        let known = ["name", "url", "filter", "failurePolicy"];
        let cases = [
            ("fliter", Some("filter")),
            ("filters", Some("filter")),
            ("failurepolicy", Some("failurePolicy")),
            ("failurePolcy", Some("failurePolicy")),
            ("nam", Some("name")),
            ("uri", Some("url")),
            ("id", None),
            ("score", None),
            ("", None),
        ];
        for (unknown, expected) in cases {
            assert_eq!(nearest(unknown, &known), expected, "{unknown}");
        }
    }
}
