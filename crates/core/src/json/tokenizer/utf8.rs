//! Checks that a text which arrives in pieces is UTF-8: a character may span two pieces.

/// The state of the check between two pieces.
#[derive(Debug, Default)]
pub(super) struct Utf8Check {
    /// The first bytes of a character whose rest has not arrived.
    partial: [u8; 4],
    length: usize,
}

impl Utf8Check {
    /// Checks the next piece; returns whether the text is valid so far.
    pub(super) fn push(&mut self, mut piece: &[u8]) -> bool {
        while self.length > 0 {
            let Some((first, rest)) = piece.split_first() else { return true };
            self.partial[self.length] = *first;
            self.length += 1;
            piece = rest;
            match std::str::from_utf8(&self.partial[..self.length]) {
                Ok(_) => self.length = 0,
                // No character is longer than four bytes, so this ends before the fifth.
                Err(error) if error.error_len().is_none() => {}
                Err(_) => return false,
            }
        }
        match std::str::from_utf8(piece) {
            Ok(_) => true,
            Err(error) if error.error_len().is_none() => {
                let rest = &piece[error.valid_up_to()..];
                self.partial[..rest.len()].copy_from_slice(rest);
                self.length = rest.len();
                true
            }
            Err(_) => false,
        }
    }

    /// Whether the text does not end inside a character.
    pub(super) fn is_whole(&self) -> bool {
        self.length == 0
    }
}
