//! Public keys as text, RFC 7468 section 13.

const HEAD: &str = "-----BEGIN PUBLIC KEY-----";
const TAIL: &str = "-----END PUBLIC KEY-----";
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// A SubjectPublicKeyInfo as text.
pub fn pem(der: &[u8]) -> String {
    let mut out = format!("{HEAD}\n");
    for line in der.chunks(48) {
        for three in line.chunks(3) {
            let word = three.iter().fold(0, |word, octet| word << 8 | u32::from(*octet));
            let word = word << (8 * (3 - three.len()));
            for i in 0..4 {
                let letter = LETTERS[(word >> (18 - 6 * i) & 63) as usize];
                out.push(if i > three.len() { '=' } else { letter.into() });
            }
        }
        out.push('\n');
    }
    out + TAIL + "\n"
}

/// The SubjectPublicKeyInfo of a text, if there is one.
pub fn der(text: &str) -> Option<Vec<u8>> {
    let (_, rest) = text.split_once(HEAD)?;
    let (body, _) = rest.split_once(TAIL)?;
    let letters: Vec<u8> = body.bytes().filter(|c| !c.is_ascii_whitespace()).collect();
    let ends = letters.iter().rev().take_while(|c| **c == b'=').count();
    let (letters, odd) = (letters.get(..letters.len() - ends)?, letters.len() % 4);
    if ends > 2 || odd != 0 {
        return None;
    }
    let mut out = Vec::with_capacity(letters.len() * 3 / 4);
    for four in letters.chunks(4) {
        let mut word = 0;
        for letter in four {
            word = word << 6 | LETTERS.iter().position(|known| known == letter)? as u32;
        }
        let octets = (word << (6 * (4 - four.len()))).to_be_bytes();
        out.extend(octets.get(1..four.len())?);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_key_is_printed_as_pem_and_read_back() {
        let lines: Vec<String> = pem(b"Man, Ma").lines().map(str::to_owned).collect();
        assert_eq!(lines[1], "TWFuLCBNYQ==");
        assert_eq!(pem(&[7; 100]).lines().count(), 5);
        for len in 0..200 {
            let octets: Vec<u8> = (0..len).map(|i| (i * 37) as u8).collect();
            assert_eq!(der(&pem(&octets)), Some(octets));
        }
    }

    #[test]
    fn what_is_no_pem_is_none() {
        for text in ["", HEAD, "-----BEGIN PUBLIC KEY-----\nA!==\n-----END PUBLIC KEY-----"] {
            assert_eq!(der(text), None, "{text}");
        }
        assert_eq!(der(&pem(&[1; 9]).replace("AQEB", "AQE")), None, "a letter is missing");
    }
}
