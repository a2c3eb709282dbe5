//! Walks an encoded protobuf message as slices of it, in one pass: groups and invalid protobuf are [`Unusual`].

/// The message ends too early, a key or number is invalid or longer than necessary, or a group begins.
#[derive(Debug, PartialEq)]
pub(crate) struct Unusual;

/// One field of a message.
#[derive(Debug, PartialEq)]
pub(crate) struct Field<'a> {
    /// The field's number, at least 1.
    pub(crate) tag: u32,
    pub(crate) value: FieldValue<'a>,
}

/// The value of a field, as far as it is known without the type.
#[derive(Debug, PartialEq)]
pub(crate) enum FieldValue<'a> {
    /// An integer, a bool or an enum.
    Number(u64),
    /// A string, bytes or a message.
    Slice(&'a [u8]),
    /// Four or eight bytes, which no reader of slices needs.
    Fixed,
}

/// The fields of a message in order; none after [`Unusual`].
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn of(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// The numbers of a packed field; none after [`Unusual`].
    pub(crate) fn packed(field: &'a [u8]) -> impl Iterator<Item = Result<u64, Unusual>> + use<'a> {
        let mut numbers = Self::of(field);
        std::iter::from_fn(move || {
            let number = (!numbers.is_over()).then(|| numbers.number())?;
            if number.is_err() {
                numbers.rest = &[];
            }
            Some(number)
        })
    }

    /// What is left, from the next field on.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether nothing is left.
    pub(crate) fn is_over(&self) -> bool {
        self.rest.is_empty()
    }

    /// The slice in the field `tag` (at most 15), if it is the next field; else an empty one, which is what
    /// protobuf omits.
    #[inline]
    pub(crate) fn slice_of(&mut self, tag: u8) -> Result<&'a [u8], Unusual> {
        self.next_slice_of(tag).unwrap_or(Ok(&[]))
    }

    /// The slice in the field `tag` (at most 15), if it is the next field.
    #[inline]
    pub(crate) fn next_slice_of(&mut self, tag: u8) -> Option<Result<&'a [u8], Unusual>> {
        match self.rest {
            [key, rest @ ..] if *key == tag << 3 | 2 => {
                self.rest = rest;
                Some(self.number().and_then(|length| self.slice(length)))
            }
            _ => None,
        }
    }

    #[inline]
    fn field(&mut self) -> Result<Field<'a>, Unusual> {
        // A key is 32 bits: a tag of 29 and a wire type of 3.
        let key = u32::try_from(self.number()?).map_err(|_| Unusual)?;
        let (tag, wire_type) = (key >> 3, key & 0b111);
        if tag == 0 {
            return Err(Unusual);
        }
        Ok(Field { tag, value: self.value(wire_type)? })
    }

    #[inline]
    fn value(&mut self, wire_type: u32) -> Result<FieldValue<'a>, Unusual> {
        match wire_type {
            0 => self.number().map(FieldValue::Number),
            1 => self.slice(8).map(|_| FieldValue::Fixed),
            2 => {
                let length = self.number()?;
                self.slice(length).map(FieldValue::Slice)
            }
            5 => self.slice(4).map(|_| FieldValue::Fixed),
            _ => Err(Unusual),
        }
    }

    #[inline]
    fn slice(&mut self, length: u64) -> Result<&'a [u8], Unusual> {
        let length = usize::try_from(length).map_err(|_| Unusual)?;
        let (slice, rest) = self.rest.split_at_checked(length).ok_or(Unusual)?;
        self.rest = rest;
        Ok(slice)
    }

    #[inline]
    fn number(&mut self) -> Result<u64, Unusual> {
        match self.rest {
            // Keys and lengths of most fields.
            [byte @ ..0x80, rest @ ..] => {
                self.rest = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long_number(),
        }
    }

    /// Seven bits per byte, the lowest first; the top bit says that more follow.
    fn long_number(&mut self) -> Result<u64, Unusual> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or(Unusual)?;
            self.rest = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                // The tenth byte has one bit left. A last byte of 0 could be omitted; without such bytes, equal
                // numbers have equal bytes, and encoded keys can be compared.
                return if byte == 0 || (shift == 63 && byte > 1) { Err(Unusual) } else { Ok(number) };
            }
        }
        Err(Unusual)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, Unusual>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walked(message: &[u8]) -> Result<Vec<Field<'_>>, Unusual> {
        Fields::of(message).collect()
    }

    #[test]
    fn fields_are_read_as_they_stand() {
        let field = |tag, value| Field { tag, value };
        let cases: [(&[u8], Vec<Field<'_>>); 6] = [
            (b"", vec![]),
            (
                b"\x0a\x02ab\x10\x07",
                vec![field(1, FieldValue::Slice(b"ab")), field(2, FieldValue::Number(7))],
            ),
            (b"\x08\xac\x02", vec![field(1, FieldValue::Number(300))]),
            (b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", vec![field(1, FieldValue::Number(u64::MAX))]),
            (b"\x0d1234\x0912345678", vec![field(1, FieldValue::Fixed), field(1, FieldValue::Fixed)]),
            (b"\xf8\xff\xff\xff\x0f\x00", vec![field((1 << 29) - 1, FieldValue::Number(0))]),
        ];
        for (message, expected) in cases {
            assert_eq!(walked(message).unwrap(), expected, "{message:?}");
        }
    }

    #[test]
    fn what_is_not_a_field_ends_the_walk() {
        let cases: [(&str, &[u8]); 11] = [
            ("no value", b"\x08"),
            ("slice past the end", b"\x0a\x02a"),
            ("length past all ends", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
            ("tag 0", b"\x00\x01"),
            ("key over 32 bits", b"\x88\x80\x80\x80\x10\x01"),
            ("number over 64 bits", b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"),
            ("number of 11 bytes", b"\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00"),
            ("key longer than it needs to be", b"\x8a\x00\x01a"),
            ("group", b"\x0b\x0c"),
            ("wire type 6", b"\x0e"),
            ("fixed past the end", b"\x0d123"),
        ];
        for (what, message) in cases {
            assert_eq!(walked(message), Err(Unusual), "{what}");
            assert_eq!(Fields::of(message).count(), 1, "{what}");
        }
    }
}
