//! A whole node with its packets sealed and opened at another place, as if each of
//! its tunnels and SecYs had said so: for whoever holds all places to one promise.

use super::names::Networks;
use super::{Config, Placement, inline, token};
use ferrule_base::Secret;

impl Config {
    /// Puts every tunnel and SecY of the worker's own loop at `placement`, as far as
    /// they can be there; the others stay. On a token a key is called `label`, and
    /// stands here all the same: none but a laboratory has such. The tables of the
    /// engines are the caller's to add.
    pub fn place_all(&mut self, placement: Placement, label: &dyn Fn(&Secret) -> String) {
        let is_token = placement == Placement::Token;
        for secy in self.secys.iter_mut().filter(|s| s.placement == Placement::Software) {
            secy.placement = placement;
            for sa in secy.transmit.iter_mut().chain(&mut secy.receive) {
                sa.label = is_token.then(|| label(&sa.key));
            }
        }
        let routes = Networks::of_routes(self);
        for number in 0..self.tunnels.len() {
            let has_suite = !is_token
                || token::has_suite(self.tunnels[number].suite)
                    && self.tunnels[number].shared.is_none();
            let fits = placement != Placement::Inline || inline::could_be(self, &routes, number);
            let tunnel = &mut self.tunnels[number];
            if tunnel.placement != Placement::Software || !has_suite || !fits {
                continue;
            }
            tunnel.placement = placement;
            for sa in tunnel.sas_mut() {
                let name = is_token.then(|| label(&sa.keys.key));
                sa.keys.place = placement.place(name.as_deref());
            }
        }
        inline::tell_mtu(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::named_key;
    use ferrule_crypto::{Place, TokenKey};

    fn gateway(routes: &str, placement: &str) -> Config {
        let text = format!(
            "[node]\nname = \"g\"\nlab = true\n\
             [[port]]\nname = \"wan\"\ndriver = \"wire\"\n\
             [[interface]]\nport = \"wan\"\naddress = [\"192.0.2.1/24\"]\n{routes}\n\
             [[macsec]]\nport = \"wan\"\n{placement}\n\
             transmit = [{{ key = \"sak:1\" }}]\n\
             [[tunnel]]\nname = \"t\"\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.2\"\n\
             suite = \"aes-gcm-128\"\nmtu = 1400\n{placement}\n\
             out = {{ spi = 4097, key = \"gcm:1\" }}\nin = {{ spi = 4098, key = \"gcm:3\" }}\n\
             [[policy]]\ninterface = \"wan\"\naction = \"protect\"\ntunnel = \"t\"\n\
             remote = \"10.9.0.0/24\"\n"
        );
        Config::parse("g.toml", &text, &mut named_key).unwrap_or_else(|e| panic!("{e}"))
    }

    const WAY: &str = "[[route]]\nprefix = \"10.9.0.0/24\"\nvia = \"192.0.2.2\"";

    #[test]
    fn a_placed_configuration_is_what_the_words_in_it_would_make() {
        let mut placed = gateway(WAY, "");
        placed.place_all(Placement::Inline, &|_| unreachable!("no token"));
        let said = gateway(WAY, "placement = \"inline\"");
        assert_eq!(placed.interfaces[0].mtu, 1400, "what the card leaves");
        assert_eq!(format!("{placed:?}"), format!("{said:?}"));
    }

    #[test]
    fn a_tunnel_that_cannot_be_in_a_card_stays_where_it_is() {
        let on_link = "[[route]]\nprefix = \"10.9.0.0/24\"\ninterface = \"wan\"";
        let mut config = gateway(on_link, "");
        config.place_all(Placement::Inline, &|_| unreachable!("no token"));
        assert_eq!(config.secys[0].placement, Placement::Inline);
        assert_eq!(config.tunnels[0].placement, Placement::Software);
        assert_eq!(config.interfaces[0].mtu, 1500 - 32, "what the SecY in the card leaves");
    }

    #[test]
    fn keys_that_are_placed_on_a_token_have_a_label() {
        let mut config = gateway(WAY, "");
        config.place_all(Placement::Token, &|key| format!("{} octets", key.len()));
        let place = Place::Token(TokenKey::new("16 octets"));
        assert_eq!(config.tunnels[0].outbound[0].keys.place, place);
        assert_eq!(config.secys[0].transmit[0].label.as_deref(), Some("16 octets"));
    }
}
