//! Bytes as hexadecimal text.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Writes bytes in lower-case hexadecimal.
pub fn encode(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from(DIGITS[usize::from(value & 15)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

/// Reads hexadecimal text, in either case; `None` if it is not valid.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_back() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&all)), Some(all));
        assert_eq!((encode(&[0x0a, 0xff]).as_str(), decode("0aFF")), ("0aff", Some(vec![0x0a, 0xff])));
        for bad in ["a", "0g", "+f", "é"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
