//! Every target for a bounded time, one test each.

use ferrule_fuzz::driver;

macro_rules! fuzz {
    ($($test:ident $name:literal)*) => {
        $(#[test]
        fn $test() {
            driver::test($name);
        })*

        #[test]
        fn every_target_has_a_test_and_a_libfuzzer_program() {
            let tested = [$($name),*];
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../libfuzzer");
            let manifest = std::fs::read_to_string(format!("{folder}/Cargo.toml")).unwrap();
            for target in ferrule_fuzz::TARGETS {
                let name = target.name;
                assert!(tested.contains(&name), "{name}");
                assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
                let path = format!("{folder}/fuzz_targets/{name}.rs");
                assert!(std::fs::read_to_string(path).unwrap().contains(name));
            }
        }
    };
}

fuzz! {
    fuzz_acl "acl"
    fuzz_icmp_extension "icmp_extension"
    fuzz_eapol "eapol"
    fuzz_mka "mka"
    fuzz_mkpdu "mkpdu"
    fuzz_node "node"
    fuzz_arp "arp"
    fuzz_batch "batch"
    fuzz_capture "capture"
    fuzz_config "config"
    fuzz_control "control"
    fuzz_crypto "crypto"
    fuzz_describe "describe"
    fuzz_ah "ah"
    fuzz_esp "esp"
    fuzz_ethernet "ethernet"
    fuzz_flow_hash "flow_hash"
    fuzz_icmpv4 "icmpv4"
    fuzz_icmpv6 "icmpv6"
    fuzz_ipv4 "ipv4"
    fuzz_ipv6 "ipv6"
    fuzz_ipv6ext "ipv6ext"
    fuzz_key_file "key_file"
    fuzz_mld "mld"
    fuzz_mpls "mpls"
    fuzz_ndp "ndp"
    fuzz_overhead "overhead"
    fuzz_pw "pw"
    fuzz_reassembly "reassembly"
    fuzz_sectag "sectag"
    fuzz_tcp "tcp"
    fuzz_udp "udp"
    fuzz_vlan "vlan"
    fuzz_management "management"
    fuzz_http "http"
    fuzz_counter_record "counter_record"
    fuzz_token_wrap "token_wrap"
    fuzz_super_frames "super_frames"
    fuzz_xdp_descriptors "xdp_descriptors"
}
