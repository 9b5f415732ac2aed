//! The counters of clause 10.7, by the standard's names.

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $field:ident = $name:literal,)+) => {
        /// Counters of a SecY, or of one association of it. Octets are of user data.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Stats {
            $($(#[doc = $doc])+ pub $field: u64,)+
        }

        impl Stats {
            /// Adds another's counts.
            pub const fn merge(&mut self, other: &Self) {
                $(self.$field += other.$field;)+
            }

            /// Every counter by its name in the standard.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$(($name, self.$field)),+].into_iter()
            }
        }
    };
}

counters! {
    /// Received and validated.
    in_ok = "InPktsOK",
    /// Octets received under a good ICV, not encrypted.
    in_octets_validated = "InOctetsValidated",
    /// Octets received and decrypted.
    in_octets_decrypted = "InOctetsDecrypted",
    /// Passed although their number was late, with replay protection off.
    in_delayed = "InPktsDelayed",
    /// Dropped because their number was late, or seen before.
    in_late = "InPktsLate",
    /// Dropped with a wrong ICV.
    in_not_valid = "InPktsNotValid",
    /// Dropped without a SecTAG.
    in_no_tag = "InPktsNoTag",
    /// Dropped with a SecTAG that breaks a rule.
    in_bad_tag = "InPktsBadTag",
    /// Dropped without an association.
    in_no_sa_error = "InPktsNoSAError",
    /// Passed without a SecTAG.
    in_untagged = "InPktsUntagged",
    /// Passed without an association.
    in_no_sa = "InPktsNoSA",
    /// Passed with a wrong ICV.
    in_invalid = "InPktsInvalid",
    /// Passed without a look at the ICV.
    in_unchecked = "InPktsUnchecked",
    /// Sent with integrity only.
    out_protected = "OutPktsProtected",
    /// Sent encrypted.
    out_encrypted = "OutPktsEncrypted",
    /// Octets sent with integrity only.
    out_octets_protected = "OutOctetsProtected",
    /// Octets sent encrypted.
    out_octets_encrypted = "OutOctetsEncrypted",
    /// Sent without a SecTAG: frames are not protected.
    out_untagged = "OutPktsUntagged",
    /// Dropped: too long for the port once tagged.
    out_too_long = "OutPktsTooLong",
}
