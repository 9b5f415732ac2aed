//! The command as a person types it: arguments in, text and faults out.

use super::{OverheadArgs, Refusal, grouped, rate, rate_text};
use crate::paint::Paint;
use clap::Parser;
use serde_json::{Value, json};

#[derive(Parser)]
struct Typed {
    #[command(flatten)]
    args: OverheadArgs,
}

fn typed(arguments: &[&str]) -> Result<String, Refusal> {
    let words = ["overhead"].iter().chain(arguments);
    let typed = Typed::try_parse_from(words).unwrap_or_else(|error| panic!("{error}"));
    typed.args.render(Paint::plain(120))
}

fn page(arguments: &[&str]) -> String {
    typed(arguments).unwrap_or_else(|refusal| panic!("{}", refusal.render(Paint::plain(120))))
}

fn refused(arguments: &[&str]) -> String {
    match typed(arguments) {
        Ok(text) => panic!("{arguments:?} was taken:\n{text}"),
        Err(refusal) => refusal.render(Paint::plain(120)),
    }
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&page(&[arguments, &["--json"]].concat())).expect("JSON")
}

/// The row of a table that begins with these words, split into columns.
fn columns<'a>(text: &'a str, row: &str) -> Vec<&'a str> {
    let line = text.lines().find(|line| line.trim_start().starts_with(row));
    line.unwrap_or_else(|| panic!("no row {row:?} in\n{text}")).split_whitespace().collect()
}

const ESP: &str = "eth vlan ipv4 udp 954 | esp aes-cbc-128 hmac-sha1-96 tunnel | mpls cw";

#[test]
fn overhead_gallery_without_arguments_shows_the_studys_sizes_and_ceilings() {
    let text = page(&[]);
    for (row, wire, added, crypto, load) in [
        ("plain  ", "1022", "+22", "–", "97.90"),
        ("MACsec  ", "1054", "+54", "+32", "94.99"),
        ("ESP, CBC with SHA-1  ", "1084", "+84", "+62", "92.42"),
        ("ESP, GCM  ", "1072", "+72", "+50", "93.43"),
        ("ESP, GCM, implicit IV  ", "1064", "+64", "+42", "94.12"),
    ] {
        let found = columns(&text, row);
        let numbers: Vec<&str> =
            found.into_iter().skip(row.split_whitespace().count()).take(4).collect();
        assert_eq!(numbers, [wire, added, crypto, load], "{row}");
    }
    let two_labels = text.split("with a transport label").nth(1).expect("the second group");
    assert_eq!(columns(two_labels, "plain")[4], "97.52");
    assert_eq!(columns(two_labels, "MACsec")[4], "94.64");
    assert!(two_labels.contains("92.09"));
}

#[test]
fn overhead_ledger_names_every_byte_its_place_and_its_rule() {
    let text = page(&[ESP]);
    let ledger = text.split("Ledger").nth(1).and_then(|rest| rest.split("Load").next());
    let rows: Vec<Vec<&str>> = ledger
        .expect("a ledger")
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|row| {
            row.len() > 4 && row[0].parse::<usize>().is_ok() && row[1].parse::<usize>().is_ok()
        })
        .collect();
    let mut next = 0;
    for row in &rows {
        assert_eq!(row[0].parse(), Ok(next), "{row:?}");
        next += row[1].parse::<usize>().expect("bytes");
    }
    assert_eq!((rows.len(), next), (13, 1084));
    for rule in ["RFC 3032 §2.1", "RFC 4385 §3", "RFC 4303 §2.4", "RFC 3602 §3", "RFC 2404 §2"]
    {
        assert!(text.contains(rule), "{rule}");
    }
    assert!(text.contains("+62   1062   +66 with the dropped tag"), "{text}");
}

/// Each row's bar begins where the one above ended: never further left, and no wider than told.
#[test]
fn overhead_drawing_is_a_staircase_that_fits_the_terminal() {
    for width in [76, 80, 100, 120, 200] {
        for stack in [ESP, "macsec sci | mpls 16 cw | svlan", "eth arp", "eth ipv6 | vxlan ipv6"] {
            let args = Typed::try_parse_from(["overhead", stack]).expect("arguments").args;
            let text = args.render(Paint::plain(width)).ok().expect("a page");
            let ledger = text.split("Ledger").nth(1).expect("a ledger");
            let bars = ledger.lines().filter(|line| line.contains(['█', '▌', '▐']));
            let mut last = 0;
            let mut count = 0;
            for line in bars {
                assert!(line.chars().count() <= width, "{width}: {line}");
                let begin = line.chars().position(|letter| "█▌▐".contains(letter)).expect("a bar");
                assert!(begin >= last, "{width}: {text}");
                (last, count) = (begin, count + 1);
            }
            assert!(count >= 2, "{text}");
        }
    }
}

#[test]
fn overhead_accepts_bars_slashes_and_one_or_many_arguments() {
    let many: Vec<&str> = ESP.split(' ').collect();
    let slashes: Vec<&str> =
        ESP.split(' ').map(|word| if word == "|" { "/" } else { word }).collect();
    assert_eq!(page(&many), page(&[ESP]));
    assert_eq!(page(&slashes), page(&[ESP]));
}

#[test]
fn overhead_compare_sets_stacks_side_by_side_for_one_frame() {
    let text = page(&[
        "eth",
        "vlan",
        "ipv4",
        "udp",
        "954",
        "--compare",
        "mpls cw",
        "macsec sci | mpls cw",
        "vxlan",
    ]);
    assert_eq!(columns(&text, "mpls cw")[2..7], ["1022", "+22", "–", "same", "97.90"]);
    let macsec = columns(&text, "macsec sci gcm-aes-128 | mpls cw");
    assert_eq!(macsec[6..11], ["1054", "+54", "+32", "+32", "94.99"]);
    assert!(text.contains("vxlan *") && text.contains("calculation only"));
    // A stack with transformations before `--compare` is a row itself.
    let rows = json(&["mpls cw", "--compare", "macsec | mpls cw"]);
    assert_eq!(rows.as_array().map(Vec::len), Some(2));
}

#[test]
fn overhead_tables_fit_narrow_terminals_and_keep_every_stack() {
    for arguments in
        [vec![], vec!["--compare", ESP, "eth vlan ipv4 udp 954 | l2tpv3 udp"], vec![ESP]]
    {
        let args =
            Typed::try_parse_from(["overhead"].iter().chain(&arguments)).expect("arguments").args;
        let text = args.render(Paint::plain(80)).ok().expect("a page");
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{}: {line}", line.chars().count());
        }
        assert!(text.contains("esp aes-cbc-128 hmac-sha1-96 tunnel | mpls cw"), "{text}");
    }
}

#[test]
fn overhead_compare_refuses_another_frame() {
    let text = refused(&["--compare", "eth ipv4 udp 9 | mpls", "eth ipv4 udp 10 | mpls"]);
    assert!(text.contains("another user's frame"), "{text}");
}

#[test]
fn overhead_mtu_option_gives_user_mtu_and_mss() {
    let text = page(&["eth ipv4 tcp 1000 | macsec sci | mpls cw", "--mtu", "9000"]);
    assert!(text.contains("line  9000   user  8946   TCP MSS  8906 IPv4,  8886 IPv6"), "{text}");
    let text = page(&["mpls cw", "--mtu", "40"]);
    assert!(text.contains("cannot carry this stack"), "{text}");
    assert!(page(&["mpls cw", "--mtu", "1000"]).contains("IPv6 does not run"));
}

#[test]
fn overhead_says_that_a_frame_does_not_fit_the_line() {
    let stack = "eth ipv4 tcp 1460 | esp aes-gcm-128 tunnel";
    let text = page(&[stack, "--mtu", "1500"]);
    let after_load = text.split("no loss up to 96.49 %").nth(1).expect("a load");
    assert!(after_load.contains("does not fit a line MTU of 1500: it needs 1556\n"), "{text}");
    assert!(after_load.contains("it would be fragmented or dropped"), "{text}");
    assert!(!page(&[stack, "--mtu", "1556"]).contains("does not fit"));
    let mtu = |line: &str| json(&[stack, "--mtu", line])["mtu"].clone();
    assert_eq!(
        (&mtu("1500")["frame_fits"], &mtu("1500")["line_for_frame"]),
        (&json!(false), &json!(1556))
    );
    assert_eq!(mtu("1556")["frame_fits"], true);
    let text =
        page(&["eth ipv4 tcp 1460", "--compare", "macsec sci", "l3vpn 1", "esp null hmac-sha1-96"]);
    assert!(text.contains("these do not fit a line MTU of 1500"), "{text}");
    assert_eq!(columns(&text, "needs  1532"), ["needs", "1532", "macsec", "sci", "gcm-aes-128"]);
    assert!(page(&["--frame", "1600"]).contains("needs  1608  mpls cw\n"));
    assert!(!page(&[]).contains("do not fit"));
}

#[test]
fn overhead_short_frame_is_carried_with_its_padding() {
    let text = page(&["eth ipv4 udp 1 | mpls cw"]);
    assert!(text.contains("   60 →    84 bytes") && text.contains("   82 →   106 bytes"), "{text}");
    assert!(text.contains("no loss up to 79.25 %"), "{text}");
    assert!(text.contains("with its padding: 17 bytes that the ledger does not have"), "{text}");
    let lines = json(&["eth ipv4 udp 1 | macsec"])["load"]["lines"].clone();
    assert_eq!((&lines[1]["frame_bytes"], &lines[1]["padding_bytes"]), (&json!(84), &json!(17)));
    let text = page(&["eth ipv4 udp 1 | esp aes-gcm-128 tunnel"]);
    assert!(text.contains("padded to 60 bytes") && !text.contains("with its padding"), "{text}");
}

#[test]
fn overhead_json_and_table_say_the_same_of_check_values() {
    for stack in ["macsec", "esp aes-gcm-128", "ah hmac-sha256-128"] {
        assert!(page(&[stack]).contains("check value"), "{stack}");
        let one = json(&[stack]);
        let ledger = one["ledger"].as_array().expect("a ledger");
        let icv =
            ledger.iter().find(|row| row["layer"].as_str().is_some_and(|l| l.ends_with("ICV")));
        assert_eq!(icv.map(|row| &row["protection"]), Some(&json!("check value")), "{stack}");
    }
}

#[test]
fn overhead_mtu_speaks_of_ip_only_where_the_frame_carries_it() {
    let text = page(&["eth arp | macsec"]);
    assert!(text.contains("line  1500   this frame, always of one size, has 70\n"), "{text}");
    for absent in ["MSS", "IPv6", "IP packet", "user "] {
        let mtu = text.split("\nMTU").nth(1).expect("MTU");
        assert!(!mtu.contains(absent), "{absent}: {text}");
    }
    let text = page(&["eth vlan 90 | macsec sci", "--mtu", "1000"]);
    assert!(text.contains("line  1000   user   964\n"), "{text}");
    assert!(!text.contains("MSS") && !text.contains("IPv6"), "{text}");
    let mtu = |stack| json(&[stack])["mtu"].clone();
    let (arp, plain, ip) = (mtu("eth arp"), mtu("eth 46"), mtu("eth ipv4 26"));
    for (mtu, user, payload) in
        [(arp, None, None), (plain, None, Some(1500)), (ip, Some(1500), Some(1500))]
    {
        assert_eq!((&mtu["user"], &mtu["user_payload"]), (&json!(user), &json!(payload)));
    }
}

#[test]
fn overhead_mtu_is_right_up_to_the_largest() {
    let text = page(&["mpls cw", "--mtu", "65535"]);
    assert!(text.contains("line 65535   user 65509   TCP MSS 65469 IPv4, 65449 IPv6"), "{text}");
}

#[test]
fn overhead_line_option_moves_the_limit() {
    let text = page(&[ESP, "--core", "10G"]);
    assert!(text.contains("94.29 % of the access line; the attachment circuit limits"), "{text}");
    let text = page(&["mpls cw", "--line", "100M", "--core", "1G"]);
    assert!(text.contains("100.00 % of the access line: nothing behind it is slower"), "{text}");
}

#[test]
fn overhead_frame_option_resizes_the_users_frame() {
    assert_eq!(json(&["macsec sci", "--frame", "64"])["wire_bytes"], 96);
    assert!(refused(&["macsec", "--frame", "20"]).contains("less than the frame's headers"));
}

#[test]
fn overhead_json_carries_the_numbers() {
    let one = json(&[ESP]);
    assert_eq!(one["wire_bytes"], 1084);
    assert_eq!(one["stages"][0]["net"], 62);
    assert_eq!(one["stages"][0]["net_with_tags"], 66);
    assert_eq!(one["load"]["limit"], "core");
    assert_eq!(one["mtu"]["user"], 1406);
    let ledger = one["ledger"].as_array().expect("a ledger");
    let bytes: u64 = ledger.iter().filter_map(|row| row["bytes"].as_u64()).sum();
    assert_eq!(bytes, 1084);
    let gallery = json(&[]);
    assert!(gallery.as_array().is_some_and(|rows| rows.len() > 15));
}

#[test]
fn overhead_faults_point_at_the_word_and_say_what_was_meant() {
    let text = refused(&["eth vlan ipv4 udp 954 | macsce sci | mpls cw"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "error: unknown word `macsce` in a transformation");
    assert_eq!(lines[1].find("macsce"), lines[2].find('^'));
    assert_eq!(lines[2].matches('^').count(), "macsce".len());
    assert_eq!(lines[3], "  help: did you mean `macsec`?");
}

#[test]
fn overhead_says_which_stacks_are_for_calculation_only() {
    let text = page(&["l2tpv3 udp | esp aes-cbc-128 hmac-sha1-96 transport"]);
    assert!(text.contains("for calculation only: Ferrule does not carry L2TPv3\n"), "{text}");
    assert!(!page(&["eth ipv4 udp 9 | esp aes-gcm-128 transport udp"]).contains("calculation"));
    assert!(!page(&[ESP]).contains("calculation only"));
}

#[test]
fn overhead_rates_read_and_print() {
    for (text, bits) in [
        ("1G", 1_000_000_000),
        ("2.5g", 2_500_000_000),
        ("100M", 100_000_000),
        ("10 Gbit/s", 10_000_000_000),
        ("64k", 64_000),
        ("5000", 5_000),
    ] {
        assert_eq!(rate(text), Ok(bits), "{text}");
    }
    for text in ["", "fast", "0", "-1G", "1e99", "nan", "1X"] {
        assert!(rate(text).is_err(), "{text}");
    }
    assert_eq!(rate_text(2_500_000_000), "2.5 Gbit/s");
    assert_eq!(grouped(1_488_095.2), "1,488,095");
}
