use crate::config::{Config, named_key};

fn secy(options: &str) -> String {
    let text = format!(
        "[node]\nname = \"n\"\nlab = true\n[[port]]\nname = \"p\"\ndriver = \"wire\"\n\
         [[macsec]]\nport = \"p\"\n{options}\n"
    );
    let problems = Config::parse("n.toml", &text, &mut named_key).err();
    problems.map_or_else(String::new, |problems| problems.to_string())
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
        ("validate = \"check\"", 9, "way to validate"),
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
        "cipher = \"gcm-aes-xpn-256\"\nwindow = 4096\nclear-tags = 2\nvalidate = \"strict\"",
    ] {
        assert_eq!(secy(options), "", "{options}");
    }
}
