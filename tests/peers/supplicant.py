"""wpa_supplicant in a guest, with MKA over the MACsec of the guest's kernel."""
CAK = "00112233445566778899aabbccddeeff"
LONG = CAK + "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
CKN = "0011223344556677"
CONF = """ctrl_interface=/run/wpa
eapol_version=3
ap_scan=0
network={{
 key_mgmt=NONE
 eapol_flags=0
 macsec_policy=1
 mka_priority={priority}
 mka_cak={cak}
 mka_ckn={ckn}
}}
"""


class Supplicant:
    """The program, and the interface that it makes."""

    def __init__(self, guest):
        self.guest = guest

    def begin(self, priority=16, cak=CAK, ckn=CKN):
        self.end()
        conf = CONF.format(priority=priority, cak=cak, ckn=ckn)
        (self.guest.out / "conf").write_text(conf)
        self.guest.sh("wpa_supplicant -B -i vec0 -D macsec_linux -c $OUT/conf -f $OUT/log")

    def end(self):
        self.guest.sh("killall -q wpa_supplicant; sleep 0.3; ip link del macsec0 2>/dev/null; true")
