//! The objects in the lists of a JSON document, one after the other: a trace of a gigabyte is never in memory.

use std::io::{self, ErrorKind, Read};

/// Bytes that are read at once.
const BLOCK: usize = 1 << 20;

/// Reads the objects of a list that is the document itself or one of its members.
pub struct Objects<R> {
    from: R,
    block: Vec<u8>,
    /// The next byte of the block, and the end of what was read.
    next: usize,
    end: usize,
    /// The part of an object that earlier blocks held.
    before: Vec<u8>,
    /// Objects and lists that are open.
    depth: usize,
    /// How many are open inside the list whose objects are wanted; 0 outside of one.
    list: usize,
    in_text: bool,
    escaped: bool,
}

impl<R: Read> Objects<R> {
    /// Begins at the start of a document.
    pub fn new(from: R) -> Self {
        Self {
            from,
            block: vec![0; BLOCK],
            next: 0,
            end: 0,
            before: Vec::new(),
            depth: 0,
            list: 0,
            in_text: false,
            escaped: false,
        }
    }

    /// The text of the next object; `None` at the end of the document. Fails where the document is cut off.
    pub fn next(&mut self) -> io::Result<Option<&[u8]>> {
        self.before.clear();
        let mut start = None;
        loop {
            if self.next == self.end {
                if let Some(start) = start.as_mut() {
                    self.before.extend_from_slice(&self.block[*start..self.end]);
                    *start = 0;
                }
                (self.next, self.end) = (0, self.from.read(&mut self.block)?);
                if self.end == 0 {
                    return match self.depth {
                        0 => Ok(None),
                        _ => Err(ErrorKind::UnexpectedEof.into()),
                    };
                }
            }
            let byte = self.block[self.next];
            self.next += 1;
            if self.in_text {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_text = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_text = true,
                b'{' | b'[' => {
                    if byte == b'{' && self.depth == self.list && self.list > 0 {
                        start = Some(self.next - 1);
                    }
                    self.depth += 1;
                    if byte == b'[' && self.list == 0 && self.depth <= 2 {
                        self.list = self.depth;
                    }
                }
                b'}' | b']' => {
                    self.depth = self.depth.checked_sub(1).ok_or(ErrorKind::InvalidData)?;
                    if let Some(start) = start.filter(|_| self.depth == self.list) {
                        let here = &self.block[start..self.next];
                        if self.before.is_empty() {
                            return Ok(Some(here));
                        }
                        self.before.extend_from_slice(here);
                        return Ok(Some(&self.before));
                    }
                    if self.depth < self.list {
                        self.list = 0;
                    }
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads three bytes at a time, so that objects lie across blocks.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let (now, later) = self.0.split_at(self.0.len().min(3));
            to[..now.len()].copy_from_slice(now);
            self.0 = later;
            Ok(now.len())
        }
    }

    fn objects(text: &str) -> io::Result<Vec<String>> {
        let mut objects = Objects::new(Slow(text.as_bytes()));
        let mut found = Vec::new();
        while let Some(object) = objects.next()? {
            found.push(String::from_utf8(object.to_vec()).unwrap());
        }
        Ok(found)
    }

    #[test]
    fn objects_of_lists_come_one_after_the_other() {
        let document = r#"{"version": 1, "info": {"groups": [{"a": 1}]}, "ids": [1, [2]], "devices": [{"id": 0}],
            "events": [{"name": "a \"}] b", "args": {"dims": [[1], []]}}, {}], "name": "x"}"#;
        let wanted = [
            r#"{"id": 0}"#,
            r#"{"name": "a \"}] b", "args": {"dims": [[1], []]}}"#,
            "{}",
        ];
        assert_eq!(objects(document).unwrap(), wanted);
        assert_eq!(
            objects(r#"[{"a": [{"b": 1}]}, {"c": 2}]"#).unwrap(),
            [r#"{"a": [{"b": 1}]}"#, r#"{"c": 2}"#]
        );
    }

    #[test]
    fn a_document_that_is_cut_off_fails() {
        for cut in [
            r#"{"events": [{"a": 1}, {"b""#,
            r#"{"events": [{"a": 1}"#,
            r#"[{"a": 1}"#,
        ] {
            assert_eq!(objects(cut).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        }
        assert_eq!(objects("]").unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
