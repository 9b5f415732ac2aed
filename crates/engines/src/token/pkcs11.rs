//! A token behind a PKCS#11 module (OASIS PKCS #11 version 2.40).
//!
//! Modules are opened, logged in to and searched through `cryptoki`; exchanges go straight
//! to the module's function list, into memory of our own, so that no key stream is left in
//! a buffer that is not wiped. Each SA has a session of its own, because a session has one
//! operation at a time.

use super::provider::{Provider, TokenError, name_of};
use super::vault::{BLOCK, Block};
use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::error::{Error, RvError};
use cryptoki::object::{Attribute, AttributeType, KeyType, ObjectClass, ObjectHandle};
use cryptoki::session::{Session, UserType};
use cryptoki::slot::Slot;
use cryptoki::types::AuthPin;
use cryptoki_sys as sys;
use ferrule_base::Secret;
use ferrule_crypto::Aes;
use sha2::{Digest, Sha256};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

/// PINs that a token refused, as digests with its place: it counts, and locks itself after
/// some. So each is tried once by a process.
static REFUSED: Mutex<BTreeSet<[u8; 32]>> = Mutex::new(BTreeSet::new());

/// A module is initialized once for a process, and stays.
static MODULES: OnceLock<Mutex<HashMap<PathBuf, Module>>> = OnceLock::new();

#[derive(Clone)]
struct Module {
    pkcs11: Pkcs11,
    list: sys::CK_FUNCTION_LIST,
}

/// Error of a failed call of `cryptoki`.
pub(super) fn failed(call: &'static str) -> impl FnOnce(Error) -> TokenError {
    move |e| TokenError::Call(call, e.to_string())
}

impl Module {
    fn open(path: &Path) -> Result<Self, TokenError> {
        let modules = MODULES.get_or_init(Mutex::default);
        let mut modules = modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = modules.get(path) {
            return Ok(module.clone());
        }
        let none = |e: &dyn std::fmt::Display| {
            TokenError::NoToken(format!("`{}` is no PKCS#11 module: {e}", path.display()))
        };
        let pkcs11 = Pkcs11::new(path).map_err(|e| none(&e))?;
        match pkcs11.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK)) {
            Ok(()) | Err(Error::Pkcs11(RvError::CryptokiAlreadyInitialized, _)) => {}
            Err(e) => return Err(failed("C_Initialize")(e)),
        }
        let list = function_list(path).map_err(|e| none(&e))?;
        let module = Self { pkcs11, list };
        modules.insert(path.to_owned(), module.clone());
        Ok(module)
    }
}

/// The functions of a module that is loaded already.
fn function_list(path: &Path) -> Result<sys::CK_FUNCTION_LIST, String> {
    // SAFETY: the library is a PKCS#11 module, which is loaded a second time here: nothing
    // of it is run that the first time did not run.
    let library = unsafe { sys::Pkcs11::new(path) }.map_err(|e| e.to_string())?;
    let mut list = std::ptr::null_mut();
    if library.C_GetFunctionList.is_err() {
        return Err("it has no C_GetFunctionList".into());
    }
    // SAFETY: the symbol is there, and the argument is a pointer to a pointer.
    let rv = unsafe { library.C_GetFunctionList(&raw mut list) };
    if rv != sys::CKR_OK || list.is_null() {
        return Err(format!("C_GetFunctionList: {rv:#x}"));
    }
    // SAFETY: on success the pointer is to the module's own list, which is plain
    // data. The module is never unloaded: MODULES keeps it.
    Ok(unsafe { *list })
}

/// Location of a token, and credentials to log in.
#[derive(Clone, Debug)]
pub struct Login {
    /// The module: a shared library.
    pub module: PathBuf,
    /// The token's label.
    pub token: String,
    /// The user's PIN.
    pub pin: Secret,
}

impl Login {
    fn digest(&self) -> [u8; 32] {
        let parts = [self.module.as_os_str().as_encoded_bytes(), self.token.as_bytes()];
        let sha = parts.iter().fold(Sha256::new(), |sha, part| {
            sha.chain_update((part.len() as u64).to_be_bytes()).chain_update(part)
        });
        sha.chain_update(self.pin.expose()).finalize().into()
    }

    /// A session that is logged in.
    fn session(&self, module: &Module, slot: Slot) -> Result<Session, TokenError> {
        let mut refused = REFUSED.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.contains(&self.digest()) {
            return Err(TokenError::Pin(self.token.clone()));
        }
        let session = module.pkcs11.open_rw_session(slot).map_err(failed("C_OpenSession"))?;
        let pin = std::str::from_utf8(self.pin.expose())
            .map_err(|_| TokenError::NoToken("the PIN is not text".into()))?;
        match session.login(UserType::User, Some(&AuthPin::new(pin.into()))) {
            Ok(()) | Err(Error::Pkcs11(RvError::UserAlreadyLoggedIn, _)) => Ok(session),
            Err(Error::Pkcs11(
                RvError::PinIncorrect
                | RvError::PinInvalid
                | RvError::PinLenRange
                | RvError::PinExpired
                | RvError::PinLocked,
                _,
            )) => {
                refused.insert(self.digest());
                Err(TokenError::Pin(self.token.clone()))
            }
            Err(e) => Err(failed("C_Login")(e)),
        }
    }
}

/// A token behind a PKCS#11 module. Logged in as long as it lives.
pub struct Pkcs11Token {
    module: Module,
    login: Login,
    slot: Slot,
    pub(super) session: Session,
    open: HashMap<u32, Open>,
}

struct Open {
    label: Box<str>,
    aes: Aes,
    session: Session,
    key: ObjectHandle,
    /// A call failed: the session is opened anew before the next.
    failed: bool,
    /// The counter with which the open AES-CTR operation goes on.
    stream: Option<u128>,
}

impl Pkcs11Token {
    /// Opens a token and logs in.
    pub fn new(login: &Login) -> Result<Self, TokenError> {
        let module = Module::open(&login.module)?;
        let slots = module.pkcs11.get_slots_with_token().map_err(failed("C_GetSlotList"))?;
        let mut labels = Vec::new();
        let mut found = None;
        for slot in slots {
            let info = module.pkcs11.get_token_info(slot).map_err(failed("C_GetTokenInfo"))?;
            let label = info.label().trim_end().to_owned();
            if label == login.token && found.is_none() {
                found = Some(slot);
            }
            labels.push(label);
        }
        labels.retain(|label| !label.is_empty());
        let slot = found.ok_or_else(|| {
            let there = if labels.is_empty() { "none".into() } else { labels.join(", ") };
            TokenError::NoToken(format!("no token is called `{}`; there are: {there}", login.token))
        })?;
        let session = login.session(&module, slot)?;
        Ok(Self { module, login: login.clone(), slot, session, open: HashMap::new() })
    }

    /// Opens the session of a key anew, if its last call failed; with it the one that is
    /// logged in, if the token has forgotten that.
    fn mend(&mut self, key: u32) -> Result<(), TokenError> {
        let Some(open) = self.open.get(&key).filter(|open| open.failed) else { return Ok(()) };
        let (label, aes) = (open.label.clone(), open.aes);
        if self.session.get_session_info().is_err() {
            self.session = self.login.session(&self.module, self.slot)?;
        }
        self.open(key, &label, aes)
    }

    /// A key's session, after the result of a call in it.
    fn after(&mut self, key: u32, done: Result<(), TokenError>) -> Result<(), TokenError> {
        if done.is_err()
            && let Some(open) = self.open.get_mut(&key)
        {
            (open.failed, open.stream) = (true, None);
        }
        done
    }

    /// The error of a key that is not as long as it has to be.
    pub(super) fn fits(label: &str, has: usize, aes: Aes) -> Result<(), TokenError> {
        match aes.key_len() == has {
            true => Ok(()),
            false => Err(TokenError::Length(label.into(), 8 * has, 8 * aes.key_len())),
        }
    }

    /// A name for a key that says nothing about it, as long as a key: from its
    /// encryption of zeros. Two labels of one key have one name.
    pub fn identity(&mut self, label: &str, aes: Aes) -> Result<Secret, TokenError> {
        const NUMBER: u32 = u32::MAX;
        self.open(NUMBER, label, aes)?;
        let name = name_of(self, NUMBER, aes);
        self.close(NUMBER);
        name
    }

    /// The AES key of a label; it must be one that stays on the token.
    pub(super) fn find(&self, label: &str, aes: Aes) -> Result<ObjectHandle, TokenError> {
        let template = [
            Attribute::Class(ObjectClass::SECRET_KEY),
            Attribute::KeyType(KeyType::AES),
            Attribute::Label(label.into()),
        ];
        let keys = self.session.find_objects(&template).map_err(failed("C_FindObjects"))?;
        let key = match keys[..] {
            [] => return Err(TokenError::NoKey(label.into())),
            [key] => key,
            _ => return Err(TokenError::ManyKeys(label.into())),
        };
        let wanted = [
            AttributeType::ValueLen,
            AttributeType::Sensitive,
            AttributeType::Extractable,
            AttributeType::Encrypt,
            AttributeType::Id,
        ];
        let unfit = |why| Err(TokenError::Unfit(label.into(), why));
        let found =
            self.session.get_attributes(key, &wanted).map_err(failed("C_GetAttributeValue"))?;
        for attribute in found {
            match attribute {
                // Modules leave the length of an unwrapped key at 0: not known.
                Attribute::ValueLen(len) if *len != 0 => Self::fits(label, *len as usize, aes)?,
                // `import` writes it there.
                Attribute::Id(id) => {
                    if let Some(has) = length_in(&id) {
                        Self::fits(label, has, aes)?;
                    }
                }
                Attribute::Sensitive(false) | Attribute::Extractable(true) => {
                    return unfit("can be read from it: import it as sensitive, not extractable");
                }
                Attribute::Encrypt(false) => return unfit("may not encrypt"),
                _ => {}
            }
        }
        Ok(key)
    }
}

/// Prefix of an imported key's `CKA_ID`; the key's length follows, in one octet.
const LENGTH: &[u8] = b"ferrule aes ";

/// The identifier of a key of so many octets.
pub(super) fn id_of(octets: usize) -> Vec<u8> {
    [LENGTH, &[octets as u8]].concat()
}

/// The octets of a key that an identifier tells.
fn length_in(id: &[u8]) -> Option<usize> {
    match id.strip_prefix(LENGTH)? {
        [octets] => Some(usize::from(*octets)),
        _ => None,
    }
}

/// A return value as an error.
fn check(call: &'static str, rv: sys::CK_RV) -> Result<(), TokenError> {
    if rv == sys::CKR_OK { Ok(()) } else { Err(TokenError::Call(call, format!("{rv:#x}"))) }
}

const MISSING: &str = "the module does not have it";

impl Open {
    /// Begins an encryption.
    fn begin(
        &self,
        list: &sys::CK_FUNCTION_LIST,
        mechanism: &mut sys::CK_MECHANISM,
    ) -> Result<(), TokenError> {
        let init = list.C_EncryptInit;
        let init = init.ok_or_else(|| TokenError::Call("C_EncryptInit", MISSING.into()))?;
        // SAFETY: session and key are open handles; the mechanism and the data that it
        // points to live until the call returns.
        check("C_EncryptInit", unsafe { init(self.session.handle(), mechanism, self.key.handle()) })
    }

    /// Ends a running AES-CTR operation.
    fn end_stream(&mut self, list: &sys::CK_FUNCTION_LIST) {
        if self.stream.take().is_some()
            && let Some(last) = list.C_EncryptFinal
        {
            let mut block = [0; BLOCK];
            let mut len = BLOCK as sys::CK_ULONG;
            // SAFETY: the session is open, and `len` says how much room there is.
            unsafe { last(self.session.handle(), block.as_mut_ptr(), &raw mut len) };
        }
    }
}

impl Provider for Pkcs11Token {
    fn open(&mut self, key: u32, label: &str, aes: Aes) -> Result<(), TokenError> {
        let handle = self.find(label, aes)?;
        let session = self.module.pkcs11.open_ro_session(self.slot);
        let session = session.map_err(failed("C_OpenSession"))?;
        let (label, failed) = (label.into(), false);
        self.open.insert(key, Open { label, aes, session, key: handle, failed, stream: None });
        Ok(())
    }

    fn close(&mut self, key: u32) {
        self.open.remove(&key);
    }

    fn ecb(&mut self, key: u32, blocks: &mut [Block]) -> Result<(), TokenError> {
        self.mend(key)?;
        let done = self.run_ecb(key, blocks);
        self.after(key, done)
    }

    fn ctr(&mut self, key: u32, first: u128, out: &mut [Block]) -> Result<(), TokenError> {
        self.mend(key)?;
        let done = self.run_ctr(key, first, out);
        self.after(key, done)
    }
}

impl Pkcs11Token {
    fn run_ecb(&mut self, key: u32, blocks: &mut [Block]) -> Result<(), TokenError> {
        let list = &self.module.list;
        let open = self.open.get_mut(&key).ok_or(TokenError::Gone)?;
        open.end_stream(list);
        let mut mechanism = sys::CK_MECHANISM {
            mechanism: sys::CKM_AES_ECB,
            pParameter: std::ptr::null_mut(),
            ulParameterLen: 0,
        };
        open.begin(list, &mut mechanism)?;
        let run = list.C_Encrypt.ok_or_else(|| TokenError::Call("C_Encrypt", MISSING.into()))?;
        let octets = blocks.as_flattened_mut();
        let (at, room) = (octets.as_mut_ptr(), octets.len() as sys::CK_ULONG);
        let mut len = room;
        // SAFETY: `at` is `room` octets that are ours alone; the standard allows
        // input and output to be the same place (C_Encrypt); `len` is the room.
        check("C_Encrypt", unsafe { run(open.session.handle(), at, room, at, &raw mut len) })?;
        if len == room { Ok(()) } else { Err(TokenError::Call("C_Encrypt", "too short".into())) }
    }

    fn run_ctr(&mut self, key: u32, first: u128, out: &mut [Block]) -> Result<(), TokenError> {
        let list = &self.module.list;
        let open = self.open.get_mut(&key).ok_or(TokenError::Gone)?;
        if open.stream != Some(first) {
            open.end_stream(list);
            let mut params = sys::CK_AES_CTR_PARAMS { ulCounterBits: 128, cb: first.to_be_bytes() };
            let mut mechanism = sys::CK_MECHANISM {
                mechanism: sys::CKM_AES_CTR,
                pParameter: (&raw mut params).cast(),
                ulParameterLen: size_of::<sys::CK_AES_CTR_PARAMS>() as sys::CK_ULONG,
            };
            open.begin(list, &mut mechanism)?;
        }
        open.stream = Some(first);
        let run = list.C_EncryptUpdate;
        let run = run.ok_or_else(|| TokenError::Call("C_EncryptUpdate", MISSING.into()))?;
        out.fill([0; BLOCK]);
        let octets = out.as_flattened_mut();
        let (at, room) = (octets.as_mut_ptr(), octets.len() as sys::CK_ULONG);
        let mut len = room;
        // SAFETY: as in `ecb`.
        let rv = unsafe { run(open.session.handle(), at, room, at, &raw mut len) };
        check("C_EncryptUpdate", rv)?;
        if len != room {
            open.end_stream(list);
            return Err(TokenError::Call("C_EncryptUpdate", "too short".into()));
        }
        open.stream = Some(first.wrapping_add(out.len() as u128));
        Ok(())
    }
}
