//! The sentences of SPEC.md, by their numbers: `[11.1]` begins the sentence 11.1, which ends with its full stop.

/// The text of the contract.
const SPEC: &str = include_str!("../../../proto/SPEC.md");

/// The sentence with this number, such as `11.1`, as one line; `None` if there is none.
pub(crate) fn sentence(number: &str) -> Option<String> {
    let (_, rest) = SPEC.split_once(&format!("[{number}] "))?;
    let line = rest.split("\n\n").next().unwrap_or(rest).split_whitespace().collect::<Vec<_>>().join(" ");
    let end = line.match_indices(". ").map(|(at, _)| at + 1).next();
    let marked =
        line.find(" [").filter(|at| line[at + 2..].starts_with(|digit: char| digit.is_ascii_digit()));
    let end = [end, marked].into_iter().flatten().min().unwrap_or(line.len());
    Some(line[..end].trim_end().to_owned())
}

/// The numbers of all sentences, in the order of the text.
pub(crate) fn numbers() -> Vec<&'static str> {
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
    use crate::cases;

    #[test]
    fn each_sentence_has_a_case_and_each_case_has_sentences() {
        let numbers: BTreeSet<_> = numbers().into_iter().collect();
        let cases = cases::all();
        let checked: BTreeSet<_> = cases.iter().flat_map(crate::Case::rules).copied().collect();
        let unchecked: Vec<_> = numbers.difference(&checked).collect();
        let unknown: Vec<_> = checked.difference(&numbers).collect();
        assert!(
            unchecked.is_empty() && unknown.is_empty(),
            "without a case: {unchecked:?}; unknown: {unknown:?}"
        );
        assert!(cases.iter().all(|case| !case.rules().is_empty()));
    }

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
    fn the_names_of_cases_are_unique_and_there_are_enough() {
        let cases = cases::all();
        let names: BTreeSet<_> = cases.iter().map(crate::Case::name).collect();
        assert_eq!(names.len(), cases.len());
        assert!(names.len() >= 120, "{}", names.len());
    }
}
