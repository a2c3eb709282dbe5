//! The labels of a stored row, laid out for lookup: calls ask for them again and again, and walking the encoded row
//! was most of the cost of a policy that looks at labels.

/// Labels in one text, one after the other, each a key and its value.
#[derive(Debug)]
pub(super) struct Labels {
    text: Box<str>,
    /// Where the key and the value of each end in `text`.
    ends: Box<[(u32, u32)]>,
}

impl Labels {
    /// From these entries, whose text is below 4 GiB, as that of every message is.
    pub(super) fn of<'l>(entries: impl Iterator<Item = (&'l str, &'l str)>) -> Self {
        let (mut text, mut ends) = (String::new(), Vec::new());
        let end = |text: &String| u32::try_from(text.len()).expect("a message is below 4 GiB");
        for (key, value) in entries {
            text.push_str(key);
            let key_ends = end(&text);
            text.push_str(value);
            ends.push((key_ends, end(&text)));
        }
        Self { text: text.into(), ends: ends.into() }
    }

    /// The value of a label.
    pub(super) fn at(&self, key: &str) -> Option<&str> {
        let (text, mut begin) = (self.text.as_bytes(), 0);
        for (key_ends, value_ends) in &self.ends {
            let (key_ends, value_ends) = (*key_ends as usize, *value_ends as usize);
            if &text[begin..key_ends] == key.as_bytes() {
                return Some(&self.text[key_ends..value_ends]);
            }
            begin = value_ends;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_label_is_found_by_its_key_alone(
            labels in prop::collection::btree_map("[abé]{0,3}", "[abé]{0,3}", 0..6),
            others in prop::collection::vec("[abé]{0,4}", 0..20),
        ) {
            let laid_out = Labels::of(labels.iter().map(|(key, value)| (&**key, &**value)));
            for key in labels.keys().chain(&others) {
                prop_assert_eq!(laid_out.at(key), labels.get(key).map(String::as_str));
            }
        }
    }

    #[test]
    fn without_labels_none_is_found() {
        let none = BTreeMap::<String, String>::new();
        assert_eq!(Labels::of(none.iter().map(|(key, value)| (&**key, &**value))).at(""), None);
    }
}
