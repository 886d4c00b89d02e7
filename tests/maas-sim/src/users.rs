//! Users and their API keys.

use crate::inventory::UserSpec;
use anyhow::{Result, bail};
use serde_json::{Value, json};

#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) name: String,
    pub(crate) consumer: String,
    pub(crate) key: String,
    pub(crate) secret: String,
}

impl Token {
    pub(crate) fn text(&self) -> String {
        format!("{}:{}:{}", self.consumer, self.key, self.secret)
    }

    pub(crate) fn generate(seed: &str, name: &str) -> Self {
        const SET: &[u8] = b"ABCDEFGHJKLMNPQRSTUVWXYZabcdefghjkmnpqrstuvwxyz23456789";
        Self {
            name: name.into(),
            consumer: letters(&format!("{seed} consumer"), 18, SET),
            key: letters(&format!("{seed} token"), 18, SET),
            secret: letters(&format!("{seed} secret"), 32, SET),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) admin: bool,
    pub(crate) tokens: Vec<Token>,
}

impl User {
    pub(crate) fn from_specs(specs: &[UserSpec]) -> Result<Vec<User>> {
        let plain = |name: &str, admin| UserSpec { name: name.into(), admin, key: None };
        let mut specs = specs.to_vec();
        if !specs.iter().any(|u| u.admin) {
            specs.push(plain("admin", true));
        }
        if specs.iter().filter(|u| u.admin).count() < 2 {
            specs.push(plain("somebody-else", true));
        }
        if !specs.iter().any(|u| !u.admin) {
            specs.push(plain("user", false));
        }
        let mut users = vec![];
        for (i, spec) in specs.iter().enumerate() {
            let mut token = Token::generate(&spec.name, "MAAS consumer");
            if let Some(key) = &spec.key {
                let parts: Vec<&str> = key.split(':').collect();
                let [consumer, key, secret] = parts[..] else {
                    bail!("users[{i}].key: not of the form consumer:token:secret");
                };
                token = Token {
                    consumer: consumer.into(),
                    key: key.into(),
                    secret: secret.into(),
                    ..token
                };
            }
            users.push(User { name: spec.name.clone(), admin: spec.admin, tokens: vec![token] });
        }
        Ok(users)
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "username": self.name,
            "email": format!("{}@example.com", self.name),
            "is_superuser": self.admin,
            "is_local": true,
            "resource_uri": format!("/MAAS/api/2.0/users/{}/", self.name),
        })
    }
}

/// Letters that look random and follow from the seed: the same inventory always has the same ids and keys.
pub(crate) fn letters(seed: &str, count: usize, set: &[u8]) -> String {
    let mut state = 0xcbf2_9ce4_8422_2325_u64;
    for byte in seed.bytes() {
        state = (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    let mut next = || {
        // splitmix64
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let size = u64::try_from(set.len()).unwrap_or(1);
    (0..count).map(|_| char::from(set[usize::try_from(next() % size).unwrap_or(0)])).collect()
}
