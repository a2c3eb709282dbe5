//! The sentences of the contract. Those that a backend can break have numbers: `[11.1]` begins the sentence 11.1, which ends with
//! its full stop. Others are found by their place and their first words: `63: Scores are clamped` in paragraph 63 of SPEC.md,
//! `Failures: no connection` in a section without paragraphs, `policy.proto: Identifies one call` in a comment.

/// The text of the contract.
const SPEC: &str = include_str!("../../../../proto/SPEC.md");

/// A file of the API.
macro_rules! proto {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../../proto/extender/policy/v1beta1/", $name)))
    };
}

/// The files whose comments have sentences for gateways.
const PROTOS: [(&str, &str); 8] = [
    proto!("hooks.proto"),
    proto!("info.proto"),
    proto!("map.proto"),
    proto!("node.proto"),
    proto!("outcomes.proto"),
    proto!("pod.proto"),
    proto!("policy.proto"),
    proto!("table.proto"),
];

/// The sentence of a rule as one line; `None` if there is none.
pub fn sentence(rule: &str) -> Option<String> {
    let Some((place, words)) = rule.split_once(": ") else { return numbered(rule) };
    let paragraphs = match PROTOS.iter().find(|(name, _)| *name == place) {
        Some((_, text)) => text.lines().map(|line| line.trim_start().trim_start_matches("//")).collect(),
        None => section(place)?.lines().collect::<Vec<_>>(),
    };
    let paragraphs = paragraphs.join("\n");
    let paragraphs = paragraphs.split("\n\n").map(one_line);
    let mut found = paragraphs.filter_map(|text| text.find(words).map(|at| text[at..].to_owned()));
    let text = found.next()?;
    let ends = [". ", " |", ".| "].iter().filter_map(|end| text.find(end)).min();
    let end = ends.map_or(text.len(), |end| if text[end..].starts_with('.') { end + 1 } else { end });
    Some(text[..end].to_owned())
}

/// Where a rule is: `SPEC.md 11.1`, `SPEC.md 63`, or `policy.proto`.
pub fn place(rule: &str) -> String {
    let place = rule.split_once(": ").map_or(rule, |(place, _)| place);
    if PROTOS.iter().any(|(name, _)| *name == place) { place.to_owned() } else { format!("SPEC.md {place}") }
}

/// The paragraph with this number, or the section with this heading.
fn section(place: &str) -> Option<&'static str> {
    let is_number = place.bytes().all(|byte| byte.is_ascii_digit());
    let begin = if is_number { format!("\n{place}. ") } else { format!("\n## {place}\n") };
    let (_, rest) = SPEC.split_once(&begin)?;
    let is_next = |at: usize| {
        let line = &rest[at + 1..];
        let number = line.bytes().take_while(u8::is_ascii_digit).count();
        line.starts_with("## ") || is_number && number > 0 && line[number..].starts_with(". ")
    };
    let end = rest.match_indices('\n').map(|(at, _)| at).find(|at| is_next(*at));
    Some(&rest[..end.unwrap_or(rest.len())])
}

/// The sentence with this number, such as `11.1`.
fn numbered(number: &str) -> Option<String> {
    let (_, rest) = SPEC.split_once(&format!("[{number}] "))?;
    let line = one_line(rest.split("\n\n").next().unwrap_or(rest));
    let end = line.match_indices(". ").map(|(at, _)| at + 1).next();
    let marked =
        line.find(" [").filter(|at| line[at + 2..].starts_with(|digit: char| digit.is_ascii_digit()));
    let end = [end, marked].into_iter().flatten().min().unwrap_or(line.len());
    Some(line[..end].trim_end().to_owned())
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The numbers of all sentences, in the order of the text.
pub fn numbers() -> Vec<&'static str> {
    let marked = SPEC.split('[').skip(1).filter_map(|rest| rest.split_once("] ").map(|(number, _)| number));
    marked.filter(|number| is_number(number)).collect()
}

/// Such as `11.1`.
fn is_number(text: &str) -> bool {
    text.split_once('.').is_some_and(|(paragraph, sentence)| {
        [paragraph, sentence]
            .iter()
            .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn numbers_are_unique_and_belong_to_their_paragraph() {
        let mut seen = BTreeSet::new();
        let mut paragraph = "";
        for line in SPEC.lines() {
            if let Some((number, _)) = line.split_once(". ")
                && number.bytes().all(|byte| byte.is_ascii_digit())
            {
                paragraph = number;
            }
            for number in
                line.split('[').skip(1).filter_map(|rest| rest.split_once("] ")).map(|(number, _)| number)
            {
                if is_number(number) {
                    assert!(seen.insert(number), "{number} is there twice");
                    assert_eq!(
                        number.split('.').next(),
                        Some(paragraph),
                        "{number} in paragraph {paragraph}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_sentence_is_one_line_and_ends_with_a_full_stop() {
        for number in numbers() {
            let sentence = sentence(number).unwrap();
            assert!(sentence.ends_with(['.', ':']) && !sentence.contains('\n'), "{number}: {sentence}");
            assert!(sentence.len() > 20 && !sentence.contains('['), "{number}: {sentence}");
        }
    }

    #[test]
    fn a_sentence_without_a_number_is_found_by_its_place_and_first_words() {
        for (rule, found) in [
            (
                "66: Calls do not",
                Some("Calls do not wait for node tables: they carry rows until the table is"),
            ),
            ("65: Calls do not", None),
            ("Failures: no connection", Some("no connection: refused, unknown name, not connected yet")),
            ("policy.proto: Empty: \"rejected\"", Some("Empty: \"rejected\".")),
            ("Nowhere: x", None),
        ] {
            let sentence = sentence(rule);
            assert_eq!(sentence.is_some(), found.is_some(), "{rule}: {sentence:?}");
            assert!(sentence.unwrap_or_default().starts_with(found.unwrap_or_default()), "{rule}");
        }
    }
}
