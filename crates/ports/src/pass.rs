//! Descriptors from one process to another over a Unix socket (`SCM_RIGHTS`):
//! a small privileged parent opens, the daemon receives.
//!
//! A descriptor that was passed has two holders until the sender closes its own. It should
//! do so at once: a port's memory is free for other uses only when no process holds its
//! socket any more.

use crate::sys::{check, check_len};
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Descriptors in one message at most.
pub const FDS_MAX: usize = 16;

/// Room for the control message, aligned as its header demands.
#[repr(C, align(8))]
struct Control([u8; 128]);

// SAFETY: arithmetic on a constant.
const SPACE: usize = unsafe { libc::CMSG_SPACE((FDS_MAX * size_of::<RawFd>()) as u32) } as usize;
const _: () = assert!(SPACE <= size_of::<Control>());

fn message(part: &mut libc::iovec, control: &mut Control, space: usize) -> libc::msghdr {
    // SAFETY: zeros are a valid message header.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (part, 1);
    (message.msg_control, message.msg_controllen) = (control.0.as_mut_ptr().cast(), space as _);
    message
}

/// Two connected sockets that keep messages apart, for a parent and a child.
pub fn socket_pair() -> io::Result<[OwnedFd; 2]> {
    let mut fds = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: two places for two descriptors, which are ours then.
    check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) })?;
    // SAFETY: as above.
    Ok(fds.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Sends a message (not empty) with up to [`FDS_MAX`] descriptors.
pub fn send_fds(socket: &impl AsRawFd, octets: &[u8], fds: &[RawFd]) -> io::Result<()> {
    if fds.len() > FDS_MAX || octets.is_empty() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut control = Control([0; 128]);
    let mut part =
        libc::iovec { iov_base: octets.as_ptr().cast_mut().cast(), iov_len: octets.len() };
    let size = size_of_val(fds) as u32;
    // SAFETY: arithmetic.
    let space = if fds.is_empty() { 0 } else { unsafe { libc::CMSG_SPACE(size) as usize } };
    let message = message(&mut part, &mut control, space);
    if !fds.is_empty() {
        // SAFETY: the control buffer is aligned and holds a header and
        // `FDS_MAX` descriptors, of which there are no more.
        unsafe {
            let head = libc::CMSG_FIRSTHDR(&message);
            (*head).cmsg_level = libc::SOL_SOCKET;
            (*head).cmsg_type = libc::SCM_RIGHTS;
            (*head).cmsg_len = libc::CMSG_LEN(size) as _;
            let data = libc::CMSG_DATA(head);
            std::ptr::copy_nonoverlapping(fds.as_ptr().cast(), data, size as usize);
        }
    }
    // SAFETY: the message names live places.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &message, libc::MSG_NOSIGNAL) };
    check_len(sent).map(drop)
}

/// Receives one message into `octets`: how many octets, and its descriptors. No
/// octets mean that the other side is gone. A message that was cut is an error
/// (its descriptors are closed).
pub fn recv_fds(socket: &impl AsRawFd, octets: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut control = Control([0; 128]);
    let mut part = libc::iovec { iov_base: octets.as_mut_ptr().cast(), iov_len: octets.len() };
    let mut message = message(&mut part, &mut control, SPACE);
    let flags = libc::MSG_CMSG_CLOEXEC;
    // SAFETY: the message names live places.
    let len = check_len(unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, flags) })?;
    let mut fds = Vec::new();
    // SAFETY: the kernel wrote well-formed control messages within the buffer;
    // the descriptors in them are new and ours.
    unsafe {
        let mut head = libc::CMSG_FIRSTHDR(&message);
        while let Some(h) = head.as_ref() {
            if h.cmsg_level == libc::SOL_SOCKET && h.cmsg_type == libc::SCM_RIGHTS {
                let count = (h.cmsg_len - libc::CMSG_LEN(0) as usize) / size_of::<RawFd>();
                let data = libc::CMSG_DATA(head).cast::<MaybeUninit<RawFd>>();
                for i in 0..count {
                    let fd = data.add(i).read_unaligned().assume_init();
                    fds.push(OwnedFd::from_raw_fd(fd));
                }
            }
            head = libc::CMSG_NXTHDR(&message, head);
        }
    }
    if message.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok((len, fds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    #[test]
    fn descriptors_pass_from_one_end_to_the_other() {
        let [a, b] = socket_pair().unwrap();
        let (mut left, right) = UnixStream::pair().unwrap();
        send_fds(&a, b"two", &[right.as_raw_fd(), right.as_raw_fd()]).unwrap();
        send_fds(&a, b"none", &[]).unwrap();
        drop((a, right));
        let mut octets = [0; 16];
        let (len, mut fds) = recv_fds(&b, &mut octets).unwrap();
        assert_eq!((&octets[..len], fds.len()), (&b"two"[..], 2));
        let mut passed = UnixStream::from(fds.remove(0));
        left.write_all(b"hello").unwrap();
        passed.read_exact(&mut octets[..5]).unwrap();
        assert_eq!(&octets[..5], b"hello");
        assert_eq!(recv_fds(&b, &mut octets).unwrap().0, 4);
        assert_eq!(recv_fds(&b, &mut octets).unwrap().0, 0, "the other side is gone");
    }

    #[test]
    fn descriptors_with_a_message_that_was_cut_are_refused() {
        let [a, b] = socket_pair().unwrap();
        assert!(send_fds(&a, b"", &[]).is_err());
        assert!(send_fds(&a, b"x", &[0; FDS_MAX + 1]).is_err());
        send_fds(&a, b"longer than the place for it", &[a.as_raw_fd()]).unwrap();
        assert!(recv_fds(&b, &mut [0; 4]).is_err());
    }
}
