//! How an input is cut into fields. No UTF-8 text holds the separator, so that every text can be any field.

pub(super) const SEPARATOR: u8 = 0xff;

/// Fields that are not there are empty; the last one takes all that is left, separators included.
pub(super) fn cut<const N: usize>(data: &[u8]) -> [&[u8]; N] {
    let mut fields = [&[][..]; N];
    for (field, part) in fields.iter_mut().zip(data.splitn(N, |byte| *byte == SEPARATOR)) {
        *field = part;
    }
    fields
}

/// Where to do damage: a place that depends on the whole input, and so is as arbitrary as it is.
pub(super) fn spot(data: &[u8], length: usize) -> usize {
    let mixed = data
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    usize::try_from(mixed % (length.max(1) as u64)).unwrap_or_default()
}
