//! Prints the numbers of the files under `profiles/` that a study's devices were
//! fitted to: `cargo run -p ferrule-studies --example fit`.

use ferrule_studies::macsec_mobility::model::fit_again;
use ferrule_studies::macsec_mobility::profiles::Profiles;
use ferrule_studies::macsec_mobility::published::Study;

fn main() {
    let Profiles { switch, macsec, gateway } = Profiles::of(&fit_again(&Study::read()));
    for profile in [switch, macsec, gateway] {
        println!("# profiles/{}.toml\n{}", profile.name, profile.to_toml());
    }
}
