//! Sealed rows past their horizon: each is opened, given a fresh idempotency key and sealed again. It decides on none.

use super::run::{Steer, Tally};
use crate::envelope::{Keyring, OpenError, Row, renew};
use crate::hex;
use crate::secret::random;
use crate::store::{PastContent, Renewed, StoreError};

const MOST_BYTES: i64 = 16 << 20;
/// How many of what cannot be opened are named; the rest is counted.
const NAMED: usize = 10;

impl Steer<'_> {
    /// What was not finished any more when it was read is left to whoever has it now.
    pub(super) async fn renew(&self, ids: &[i64], through: i64, tally: &mut Tally) -> Result<(), StoreError> {
        let Some(ring) = self.ring else {
            tally.sealed += ids.len() as u64;
            return Ok(());
        };
        let mut left = ids.to_vec();
        while !left.is_empty() {
            let (mut crowded_out, mut renewed) = (Vec::new(), Vec::new());
            for row in self.store.read_sealed_past(&left, MOST_BYTES).await? {
                match row.content {
                    PastContent::NoRoom => crowded_out.push(row.id),
                    PastContent::TooLarge => unopenable(row.id, tally),
                    PastContent::Whole(whole) => match one(row.id, *whole, ring) {
                        Ok(one) => renewed.push(one),
                        Err(_) => unopenable(row.id, tally),
                    },
                }
            }
            let done = self.store.renew_deliveries(self.order(), &renewed, through).await?;
            tally.changed += done;
            tally.fresh += done;
            // The first one always has room, so that each turn gets on.
            left = crowded_out;
        }
        Ok(())
    }
}

fn unopenable(id: i64, tally: &mut Tally) {
    tally.unopenable += 1;
    if tally.first_unopenable.len() < NAMED {
        tally.first_unopenable.push(id);
    }
}

fn one(id: i64, mut row: Row, ring: &Keyring) -> Result<Renewed, OpenError> {
    let was = row.envelope_nonce.clone();
    renew(&mut row, format!("whk_{}", uuid()), ring, random())?;
    let Row { encrypted_body, envelope_nonce, idempotency_key, .. } = row;
    Ok(Renewed { id, was, ciphertext: encrypted_body, nonce: envelope_nonce, idempotency_key })
}

/// Of version 4, as the host's functions make them.
pub(crate) fn uuid() -> String {
    let mut bytes: [u8; 16] = random();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let text = hex::encode(&bytes);
    format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_random_and_says_so() {
        let (one, other) = (uuid(), uuid());
        assert_ne!(one, other);
        assert_eq!((one.len(), &one[14..15], one.matches('-').count()), (36, "4", 4), "{one}");
        assert!("89ab".contains(&one[19..20]), "{one}");
    }
}
