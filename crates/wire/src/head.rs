//! The head of a long answer: enough to pass the rest on unread.
//!
//! An answer whose envelope comes in the usual order (`jsonrpc`, `id`, `result`) and whose result
//! starts with a member that only a finished result has can be streamed: what follows `"result":`
//! is the result and one closing brace. Anything unusual is gathered and read whole instead.

/// What the first bytes of an answer say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Head {
    /// Too little has arrived to tell.
    More,
    /// The result starts at `offset` and is a finished one: the rest may be passed on unread.
    Streamable {
        /// Where the result's `{` stands.
        offset: usize,
    },
    /// Gather the answer and read it whole.
    Gather,
}

/// First members that only a finished result has. A result that asks for input starts otherwise.
const FINISHED: [&[u8]; 4] = [b"content", b"contents", b"messages", b"isError"];

/// Looks at the first bytes of an answer.
pub fn look(text: &[u8]) -> Head {
    let mut scanner = Scanner { text, at: 0 };
    match scanner.run() {
        Ok(offset) => Head::Streamable { offset },
        Err(stop) => stop,
    }
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl Scanner<'_> {
    fn run(&mut self) -> Result<usize, Head> {
        self.expect(b'{')?;
        let mut before = 0;
        loop {
            let (from, to) = self.string()?;
            self.expect(b':')?;
            match &self.text[from..to] {
                b"jsonrpc" | b"id" => {
                    self.scalar()?;
                    self.expect(b',')?;
                    before += 1;
                }
                // Both must have come: one that stands after the result would come out twice.
                b"result" if before == 2 => break,
                _ => return Err(Head::Gather),
            }
        }
        self.space();
        let offset = self.at;
        self.expect(b'{')?;
        let (from, to) = self.string()?;
        match &self.text[from..to] {
            // Legacy clients take no other structure, and the first member cannot be left out on the way.
            b"structuredContent" => {
                self.expect(b':')?;
                self.expect(b'{').map(|()| offset)
            }
            first if FINISHED.contains(&first) => Ok(offset),
            _ => Err(Head::Gather),
        }
    }

    fn space(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    fn expect(&mut self, wanted: u8) -> Result<(), Head> {
        self.space();
        match self.text.get(self.at) {
            None => Err(Head::More),
            Some(found) if *found == wanted => {
                self.at += 1;
                Ok(())
            }
            Some(_) => Err(Head::Gather),
        }
    }

    /// A string without escapes; gives the range inside the quotes.
    fn string(&mut self) -> Result<(usize, usize), Head> {
        self.expect(b'"')?;
        let from = self.at;
        let end = memchr::memchr2(b'"', b'\\', &self.text[from..]).ok_or(Head::More)? + from;
        if self.text[end] == b'\\' {
            return Err(Head::Gather);
        }
        self.at = end + 1;
        Ok((from, end))
    }

    /// A string or a number.
    fn scalar(&mut self) -> Result<(), Head> {
        self.space();
        match self.text.get(self.at) {
            None => Err(Head::More),
            Some(b'"') => self.string().map(|_| ()),
            Some(digit) if digit.is_ascii_digit() || *digit == b'-' => {
                while self.text.get(self.at).is_some_and(|b| b.is_ascii_digit() || *b == b'-') {
                    self.at += 1;
                }
                if self.at == self.text.len() { Err(Head::More) } else { Ok(()) }
            }
            Some(_) => Err(Head::Gather),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_answers_stream_and_unusual_ones_are_gathered() {
        let cases = [
            (r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#, Head::Streamable { offset: 33 }),
            (
                r#" { "jsonrpc" : "2.0" , "id" : "x" , "result" : {"structuredContent": {}}}"#,
                Head::Streamable { offset: 47 },
            ),
            (r#"{"jsonrpc":"2.0","id":1,"result":{"structuredContent":[]}}"#, Head::Gather),
            (r#"{"jsonrpc":"2.0","id":1,"result":{"structuredContent": "#, Head::More),
            (r#"{"id":1,"result":{"contents":[]},"jsonrpc":"2.0"}"#, Head::Gather),
            (r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required"}}"#, Head::Gather),
            (r#"{"jsonrpc":"2.0","id":1,"result":{"_meta":{}}}"#, Head::Gather),
            (r#"{"jsonrpc":"2.0","id":1,"error":{}}"#, Head::Gather),
            (r#"{"jsonrpc":"2.0","id":null,"result":{"content":[]}}"#, Head::Gather),
            (r#"{"jsonrpc":"2.0","id":1,"result":[1]}"#, Head::Gather),
            (r#"{"jsonrpc":"2.0","id":1"#, Head::More),
            (r#"{"jsonrpc":"2.0","id":1,"result":{"cont"#, Head::More),
            ("", Head::More),
            ("garbage", Head::Gather),
        ];
        for (text, expected) in cases {
            assert_eq!(look(text.as_bytes()), expected, "{text}");
        }
    }
}
