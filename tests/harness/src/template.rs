//! Objects as text with placeholders. A template is JSON in Go's order of fields, formatted for people, with
//! `${name}` in place of a value; on the wire it has no white space, as Go writes it.

/// The template without its line breaks and indents.
pub(crate) fn compact(template: &str) -> String {
    template.lines().map(str::trim).collect()
}

/// The template with every `${name}` replaced by its value.
pub(crate) fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut pieces = template.split("${");
    let mut filled = String::with_capacity(template.len() * 2);
    filled.extend(pieces.next());
    for piece in pieces {
        let (name, rest) = piece.split_once('}').expect("a gap in a template is closed");
        let value = values.iter().find(|(known, _)| *known == name);
        filled.push_str(value.expect("a template has gaps only for values that its module gives").1);
        filled.push_str(rest);
    }
    filled
}
