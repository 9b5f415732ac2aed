"""Gives an ESP SA of the kernel padding against traffic analysis.

    python3 tfcpad.py SPI OCTETS

`ip xfrm` has no word for it, so the SA is read by netlink, taken away, and put back
with one attribute more (XFRMA_TFCPAD of linux/xfrm.h).
"""
import socket
import struct
import sys

NEWSA, DELSA, GETSA = 16, 17, 18        # XFRM_MSG_*
REQUEST, ACK, DUMP, CREATE = 1, 4, 0x300, 0x400
TFCPAD = 22
# struct xfrm_usersa_info: selector, id (destination, SPI, protocol), …, family.
DESTINATION, SPI, FAMILY = 56, 72, 212


def ask(s, kind, flags, payload):
    s.send(struct.pack("=IHHII", 16 + len(payload), kind, REQUEST | flags, 1, 0) + payload)
    answers = []
    while True:
        data = s.recv(1 << 16)
        while len(data) >= 16:
            length, kind, _, _, _ = struct.unpack("=IHHII", data[:16])
            body, data = data[16:length], data[(length + 3) & ~3:]
            if kind == 2:                               # NLMSG_ERROR
                code = struct.unpack("=i", body[:4])[0]
                if code:
                    raise OSError(-code, "netlink")
                return answers
            if kind == 3:                               # NLMSG_DONE
                return answers
            answers.append(body)


def main(spi, octets):
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 6)        # NETLINK_XFRM
    s.bind((0, 0))
    sas = ask(s, GETSA, DUMP, b"")
    sa = next(a for a in sas if struct.unpack("!I", a[SPI:SPI + 4])[0] == spi)
    family = struct.unpack("=H", sa[FAMILY:FAMILY + 2])[0]
    if family not in (2, 10):
        family = 2
    # struct xfrm_usersa_id: destination, SPI, family, protocol.
    gone = sa[DESTINATION:DESTINATION + 16] + sa[SPI:SPI + 4] + struct.pack("=HBx", family, 50)
    ask(s, DELSA, ACK, gone)
    ask(s, NEWSA, ACK | CREATE, sa + struct.pack("=HHI", 8, TFCPAD, octets))


if __name__ == "__main__":
    main(int(sys.argv[1], 0), int(sys.argv[2]))
