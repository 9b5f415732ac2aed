#!/usr/bin/env python3
"""A second, independent way to protect frames, to compare the SecY with.

    python3 oracle.py > oracle.json     writes the cases again
    python3 oracle.py --check           compares them with oracle.json

Needs the Python package `cryptography`. The first cases are the example frames
of IEEE 802.1AE-2018 Annex C: what is computed here is compared with the ICVs
printed there. The others are drawn by a fixed seed: confidentiality offsets,
short frames, integrity only, SCI or not, XPN, VLAN tags in the clear.
"""
import json
import pathlib
import random
import sys

from cryptography.hazmat.primitives.ciphers.aead import AESGCM


def protect(case):
    """The frame on the wire."""
    plain = bytes.fromhex(case["plain"])
    macs, rest = plain[:12], plain[12:]
    tags = b""
    while len(tags) < 4 * case["clear_tags"] and rest[:2] in (b"\x81\x00", b"\x88\xa8"):
        tags, rest = tags + rest[:4], rest[4:]
    tci = {"sci": 0x20, "es": 0x40, "peer": 0, "es-scb": 0x50, "scb": 0x10}[case["identity"]]
    if case["encrypt"]:
        tci |= 0x0C
    short = len(rest) if len(rest) < 48 else 0
    tag = b"\x88\xe5" + bytes([tci | case["an"], short])
    tag += (case["pn"] % 2**32).to_bytes(4, "big")
    if case["identity"] == "sci":
        tag += bytes.fromhex(case["sci"])
    if case["salt"]:
        nonce = case["ssci"] << 64 | case["pn"]
        nonce = (nonce ^ int(case["salt"], 16)).to_bytes(12, "big")
    else:
        nonce = bytes.fromhex(case["sci"]) + case["pn"].to_bytes(4, "big")
    clear = min(case["offset"], len(rest)) if case["encrypt"] else len(rest)
    # Tags in the clear are not covered: the provider may change them.
    covered = macs + tag + rest[:clear]
    sealed = AESGCM(bytes.fromhex(case["key"])).encrypt(nonce, rest[clear:], covered)
    return macs + tags + tag + rest[:clear] + sealed


def case(name, **fields):
    made = dict(name=name, key="", sci="", salt="", ssci=0, an=0, pn=1, encrypt=True,
                offset=0, identity="sci", clear_tags=0, plain="")
    made.update(fields)
    made["wire"] = protect(made).hex()
    return made


def annex_c():
    """Each example: integrity or confidentiality, GCM-AES-128 and -256."""
    def user(last, number):
        return "0800" + bytes(range(0x0F, last + 1)).hex() + f"{number:04x}"

    keys = [
        ("ad7a2bd03eac835a6f620fdcb506b345",
         "e3c08a8f06c6e3ad95a70557b23f75483ce33021a9c72b7025666204c69c0b72"),
        ("071b113b0ca743fecccf3d051f737382",
         "691d3ee909d7f54167fd1ca0b5d769081f2bde1aee655fdbab80bd5295ae6be7"),
        ("013fe00b5f11be7f866d0cbbc55a7a90",
         "83c093b58de7ffe1c0da926ac43fb3609ac1c80fee1b624497ef942e2f79a823"),
        ("88ee087fd95da9fbf6725aa9d757b0cd",
         "4c973dbc7364621674f8b5b89e5c15511fced9216490fb1c1a2caa0ffe0407e5"),
    ]
    who = [
        ("d609b1f056637a0d46df998d", "12153524c0895e81", 2, 0xB2C28465, "sci"),
        ("e20106d7cd0df0761e8dcd3d", "f0761e8dcd3d0001", 0, 0x76D457ED, "es"),
        ("84c5d513d2aaf6e5bbd27277", "7cfde9f9e33724c6", 3, 0x8932D612, "sci"),
        ("68f2e77696ce7ae8e2ca4ec5", "7ae8e2ca4ec50001", 1, 0x2E58495C, "es"),
    ]
    frames = [  # length, keys and addresses, encrypted, last octet, ICVs
        (54, 0, False, 0x34, "f09478a9b09007d06f46e9b6a1da25dd", "2f0bc5af409e06d609ea8b7d0fa5ea50"),
        (60, 0, True, 0x3A, "4f8d55e7d3f06fd5a13c0c29b9d5b880", "5ca597cdbb3edb8d1a1151ea0af7b436"),
        (60, 1, False, 0x3A, "0c017bc73b227dfcc9bafa1c41acc353", "35217c774bbc31b63166bcf9d4abed07"),
        (54, 1, True, 0x34, "d6a5284f4a6d3fe22a5d6c2b960494c3", "12af39c2d1fdc2051f8b7b3c9d397ef2"),
        (65, 2, False, 0x3F, "217867e50c2dad74c28c3b50abdf695a", "6ee160e8faeca4b36c86b234920ca975"),
        (61, 2, True, 0x3B, "bfd310a4837c816ccfa5ac23ab003988", "d4a10f4e05139c23df00b3aadc71f0596a"),
        (79, 3, False, 0x4D, "07922b8ebcf10bb2297588ca4c614523", "00bda1b7e87608bcbf470f12157f4c07"),
        (75, 3, True, 0x49, "8f8757adb8aa788d8f65ad668be70e7", "2611cd7daa01d61c5c886dc1a8170107"),
    ]
    for number, (length, place, encrypt, last, *icvs) in enumerate(frames, 1):
        macs, sci, an, pn, identity = who[place]
        for bits, key, icv in zip((128, 256), keys[place], icvs):
            kind = "confidentiality" if encrypt else "integrity"
            made = case(f"Annex C, {length} octets, {kind}, GCM-AES-{bits}", key=key, sci=sci,
                        an=an, pn=pn, identity=identity, encrypt=encrypt,
                        plain=macs + user(last, number))
            assert made["wire"].endswith(icv), made["name"]
            yield made
    for bits, key, icv in zip((128, 256), keys[0], ("17fe1981ebdd4afc5062697e8baa0c23",
                                                    "4dbd2f6a754a6cf728cc129ba6931577")):
        macs, sci, an, _, identity = who[0]
        made = case(f"Annex C, 54 octets, integrity, GCM-AES-XPN-{bits}", key=key, sci=sci,
                    an=an, pn=0xB0DF459CB2C28465, salt="e630e81a48de86a21c66fa6d",
                    ssci=0x7A30C118, identity=identity, encrypt=False, plain=macs + user(0x34, 1))
        assert made["wire"].endswith(icv), made["name"]
        yield made


def drawn(rng):
    lengths = [2, 3, 29, 30, 31, 46, 47, 48, 49, 50, 51, 52, 79, 100, 230]
    for number in range(120):
        xpn = rng.random() < 0.3
        encrypt = xpn or rng.random() < 0.8
        offset = 0 if xpn or not encrypt else rng.choice([0, 30, 50])
        identity = rng.choice(["sci", "sci", "es", "peer", "es-scb", "scb"])
        system = bytes([2]) + rng.randbytes(5)
        port = {"es": 1, "es-scb": 0, "scb": 0}.get(identity, rng.choice([1, 7, 65535]))
        tags = rng.randrange(3)
        clear = rng.randrange(tags + 1)
        vlan = b"".join(rng.choice([b"\x81\x00", b"\x88\xa8"]) + rng.randbytes(2)
                        for _ in range(tags))
        user = b"\x88\xb5" + rng.randbytes(rng.choice(lengths) - 2)
        pn = rng.randrange(1, 2**63) if xpn else rng.randrange(1, 2**32)
        yield case(f"drawn {number}", key=rng.randbytes(rng.choice([16, 32])).hex(),
                   sci=(system + port.to_bytes(2, "big")).hex(),
                   salt=rng.randbytes(12).hex() if xpn else "",
                   ssci=rng.randrange(1, 2**32) if xpn else 0, an=rng.randrange(4), pn=pn,
                   encrypt=encrypt, offset=offset, identity=identity, clear_tags=clear,
                   plain=(bytes([2]) + rng.randbytes(5) + system + vlan + user).hex())


def main():
    cases = [*annex_c(), *drawn(random.Random(8021))]
    text = "[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n"
    if sys.argv[1:] == ["--check"]:
        here = pathlib.Path(__file__).with_name("oracle.json").read_text()
        sys.exit(0 if here == text else "oracle.json is not what oracle.py computes")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
