//! AES-GMAC: GCM with additional data alone (SP 800-38D section 5.2, RFC 4543).
//!
//! Libraries take additional data in one piece, but with extended sequence numbers
//! it is not in one: the high half of the number is no part of the packet. So for
//! as long as it takes, octets of the packet make room for it:
//!
//! ```text
//!   AH    [ packet … ][ ICV ]                     the ICV is kept elsewhere
//!         [ packet … ][ high ]
//!
//!   ESP   … outer ][ SPI ][ low ][ IV … ][ ICV ]   the octets in front of the SPI
//!         …  ][ SPI ][ high ][ low ][ IV … ]       are kept elsewhere
//! ```

use crate::job::{Ad, Span, Verdict};

/// Octets of half a sequence number, and of an SPI.
const HALF: usize = 4;

/// Octets of the ICV.
const ICV: usize = 16;

/// Gives `tag` the additional data in one piece, and the ICV to write or to compare.
/// Afterwards all but the ICV is as it was.
pub(super) fn run(
    buf: &mut [u8],
    ad: &Ad,
    text: Span,
    tag: impl FnOnce(&[u8], &mut [u8; ICV]) -> Verdict,
) -> Verdict {
    one_piece(buf, ad, text, tag).unwrap_or(Verdict::Failed)
}

fn one_piece(
    buf: &mut [u8],
    ad: &Ad,
    text: Span,
    tag: impl FnOnce(&[u8], &mut [u8; ICV]) -> Verdict,
) -> Option<Verdict> {
    let (front, rest) = buf.split_at_mut_checked(text.start as usize)?;
    // Nothing is encrypted: octets outside the additional data would go unprotected.
    let place: &mut [u8; ICV] = rest.first_chunk_mut().filter(|_| text.len == 0)?;
    match *ad {
        Ad::Span(span) => Some(tag(front.get(span.range())?, place)),
        Ad::Inline(octets) => Some(tag(&octets, place)),
        Ad::SpanThen(span, high) => {
            if span.end() != front.len() {
                return None;
            }
            let mut icv = *place;
            place[..HALF].copy_from_slice(&high);
            let verdict = tag(buf.get(span.start.into()..span.end() + HALF)?, &mut icv);
            let end = span.end();
            buf.get_mut(end..)?.first_chunk_mut().map(|place| *place = icv)?;
            Some(verdict)
        }
        Ad::Widened(span, high) => {
            let from = usize::from(span.start).checked_sub(HALF)?;
            let whole = front.get_mut(from..span.end())?;
            let head: &mut [u8; 2 * HALF] = whole.first_chunk_mut()?;
            let kept = *head;
            let [_, _, _, _, spi @ ..] = kept;
            head[..HALF].copy_from_slice(&spi);
            head[HALF..].copy_from_slice(&high);
            let verdict = tag(whole, place);
            whole[..2 * HALF].copy_from_slice(&kept);
            Some(verdict)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Octets that the hash is given for a packet; checks that the packet itself is
    /// unchanged.
    fn seen(buf: &[u8], ad: Ad, text: Span) -> Option<Vec<u8>> {
        let (mut after, mut seen) = (buf.to_vec(), None);
        let verdict = run(&mut after, &ad, text, |ad, icv| {
            seen = Some(ad.to_vec());
            assert_eq!(icv[..], buf[text.end()..][..ICV], "the ICV as it was");
            icv.fill(0xee);
            Verdict::Done
        });
        let at = text.end().min(buf.len());
        match verdict {
            Verdict::Done => {
                assert_eq!(after[..at], buf[..at]);
                assert_eq!(after[at..at + ICV], [0xee; ICV]);
                assert_eq!(after[at + ICV..], buf[at + ICV..]);
            }
            _ => assert_eq!((after, verdict), (buf.to_vec(), Verdict::Failed)),
        }
        seen
    }

    #[test]
    fn gmac_sees_the_high_half_of_the_number_where_the_standards_put_it() {
        let buf: Vec<u8> = (0..60).collect();
        let (span, text) = (Span::new(8, 30), Span::new(38, 0));
        let high = [0xa0, 0xa1, 0xa2, 0xa3];
        assert_eq!(seen(&buf, Ad::Span(span), text).unwrap(), buf[8..38]);
        let behind = [&buf[8..38], &high].concat();
        assert_eq!(seen(&buf, Ad::SpanThen(span, high), text).unwrap(), behind);
        let within = [&buf[8..12], &high, &buf[12..38]].concat();
        assert_eq!(seen(&buf, Ad::Widened(span, high), text).unwrap(), within);
        assert_eq!(seen(&buf, Ad::Inline([5; 12]), text).unwrap(), [5; 12]);
    }

    #[test]
    fn gmac_refuses_what_has_a_text_or_no_room() {
        let (buf, high) = ([7; 60], [1; HALF]);
        let none = |ad, text| assert_eq!(seen(&buf, ad, text), None, "{ad:?} {text:?}");
        none(Ad::Span(Span::new(0, 8)), Span::new(8, 1));
        none(Ad::Span(Span::new(0, 60)), Span::new(60, 0));
        none(Ad::Span(Span::new(9, 8)), Span::new(16, 0));
        none(Ad::SpanThen(Span::new(0, 8), high), Span::new(9, 0));
        none(Ad::Widened(Span::new(3, 20), high), Span::new(23, 0));
        none(Ad::Widened(Span::new(4, 3), high), Span::new(7, 0));
    }
}
