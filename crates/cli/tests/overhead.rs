//! `ferrule overhead` as a process: exit codes, streams, and no colour in a pipe.

use std::process::{Command, Output};

fn ferrule(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferrule"));
    command.arg("overhead").args(arguments).env_remove("COLUMNS");
    command.output().expect("the command runs")
}

#[test]
fn overhead_exits_0_and_writes_plain_text_into_a_pipe() {
    let output = ferrule(&["eth vlan ipv4 udp 954 | macsec sci gcm-aes-128 | mpls cw"]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(text.contains("1054 bytes on the wire"), "{text}");
    assert!(!text.contains('\u{1b}'), "colour in a pipe");
    assert!(output.stderr.is_empty());
}

#[test]
fn overhead_exits_2_on_a_stack_that_cannot_be() {
    for stack in ["mpsl cw", "eth arp | esp aes-gcm-128", "esp aes-cbc-128", "eth ipv4 udp 70000"] {
        let output = ferrule(&[stack]);
        assert_eq!(output.status.code(), Some(2), "{stack}");
        assert!(output.stdout.is_empty(), "{stack}");
        let text = String::from_utf8(output.stderr).expect("UTF-8");
        assert!(text.starts_with("error: ") && text.contains('^'), "{stack}: {text}");
    }
    assert_eq!(ferrule(&["--line", "fast"]).status.code(), Some(2));
    assert_eq!(ferrule(&["--mtu", "0"]).status.code(), Some(2));
}

#[test]
fn overhead_help_has_words_and_examples_that_run() {
    let help = String::from_utf8(ferrule(&["--help"]).stdout).expect("UTF-8");
    assert!(help.contains("hmac-sha1-96") && help.contains("Words:"), "{help}");
    let examples: Vec<&str> = help
        .lines()
        .skip_while(|line| !line.starts_with("Examples:"))
        .filter_map(|line| line.trim().strip_prefix("ferrule overhead"))
        .collect();
    assert!(examples.len() >= 4, "{help}");
    for example in examples {
        let arguments = shell_words(example);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        assert_eq!(ferrule(&arguments).status.code(), Some(0), "{example}");
    }
}

/// Words as a shell splits them: quotes hold together, a comment ends the line.
fn shell_words(text: &str) -> Vec<String> {
    let text = text.split(" # ").next().unwrap_or_default();
    let quoted = text.split('\'').enumerate();
    quoted
        .flat_map(|(at, part)| match at % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect::<Vec<_>>(),
            _ => vec![part.to_owned()],
        })
        .collect()
}
