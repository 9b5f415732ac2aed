use crate::config::{Config, named_key};

fn secy(options: &str) -> String {
    let text = format!(
        "[node]\nname = \"n\"\nlab = true\n[[port]]\nname = \"p\"\ndriver = \"wire\"\n\
         [[macsec]]\nport = \"p\"\n{options}\n"
    );
    let problems = Config::parse("n.toml", &text, &mut named_key).err();
    problems.map_or_else(String::new, |problems| problems.to_string())
}

/// MKA with a CAK.
fn one(options: &str, ckn: &str) -> String {
    format!("mka = {{ {options}cak = [{{ ckn = \"{ckn}\", key = \"cak:1\" }}] }}")
}

/// The first of the options stands in line 9.
#[test]
fn macsec_configuration_that_cannot_be_is_refused_at_its_line() {
    for (options, line, what) in [
        ("cipher = \"chacha20-poly1305\"", 9, "no cipher"),
        ("offset = 31", 9, "offset cannot be 31 here"),
        ("cipher = \"gcm-aes-xpn-128\"\noffset = 30", 10, "offset cannot be 30 here"),
        ("encrypt = false\noffset = 30", 10, "an offset without encryption"),
        ("end-station = true\nsend-sci = true", 8, "end-station together with send-sci"),
        ("sci = \"02:00:00:00:00:01/7\"\nend-station = true", 9, "02:00:00:00:00:01/7"),
        ("validate = \"some\"", 9, "way to validate"),
        ("uncontrolled = [\"stp\"]", 9, "`stp` is no protocol"),
        ("mka = { cak = [] }", 9, "mka without a CAK"),
        (&one("", "00f"), 9, "`00f` is no CKN"),
        (&one("", &"00".repeat(33)), 9, "is no CKN"),
        (&one("priority = 256, ", "00"), 9, "priority cannot be 256"),
        (&one("rekey = 5, ", "00"), 9, "rekey cannot be 5"),
        (&one("destination = \"02\", ", "00"), 9, "`02` is no MAC address"),
        (&one("ethertype = 0x88e5, ", "00"), 9, "which others have"),
        ("mka = { cak = [{ ckn = \"00\", key = \"sak:1\" }] }", 9, "there is no `cak`"),
        (
            "mka = { cak = [{ ckn = \"00\", key = \"cak:1\" }, { ckn = \"00\", key = \"cak:2\" }] }",
            9,
            "two CAKs are called 00",
        ),
        (&format!("validate = \"check\"\n{}", one("", "00")), 10, "validate together with mka"),
        (
            &format!("transmit = [{{ key = \"sak:1\" }}]\n{}", one("", "00")),
            10,
            "static associations",
        ),
        ("cipher = \"gcm-aes-xpn-128\"\nwindow = 4097", 10, "window cannot be 4097"),
        ("clear-tags = 3", 9, "clear-tags cannot be 3"),
    ] {
        let problems = secy(options);
        let at = format!("n.toml:{line}:");
        assert!(problems.starts_with(&at) && problems.contains(what), "{options}: {problems}");
        assert_eq!(problems.matches("n.toml:").count(), 1, "{options}: {problems}");
    }
}

#[test]
fn macsec_configuration_of_what_goes_together_is_taken() {
    for options in [
        "offset = 50",
        "encrypt = false\noffset = 0",
        "end-station = true",
        "sci = \"02:00:00:00:00:01/1\"\nend-station = true",
        "sci = \"02:00:00:00:00:01/7\"",
        "validate = \"check\"",
        "validate = \"disabled\"\nprotect = false",
        "uncontrolled = [\"lldp\", \"0x1234\", \"ptp\"]",
        &one("", "00ff"),
        &one("priority = 255, rekey = 0, should-secure = true, ethertype = 0x876f, ", "00ff"),
        "cipher = \"gcm-aes-256\"\nencrypt = false\nmka = { cak = [{ ckn = \"00\", key = \"cak256:1\" }] }",
        "cipher = \"gcm-aes-xpn-256\"\nwindow = 4096\nclear-tags = 2\nvalidate = \"strict\"",
    ] {
        assert_eq!(secy(options), "", "{options}");
    }
}
