//! Numbers of fixed length in a row of bytes, lowest byte first, and back without reading past the end.

/// Bytes that are written.
#[derive(Debug, Default)]
pub(super) struct Writing(pub(super) Vec<u8>);

impl Writing {
    pub(super) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.0.extend(value.to_le_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    /// With their number before them.
    pub(super) fn bytes(&mut self, value: &[u8]) {
        self.u64(value.len() as u64);
        self.0.extend(value);
    }
}

/// Bytes that are read; None at their end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taking<'a>(pub(super) &'a [u8]);

impl<'a> Taking<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = usize::try_from(self.u64()?).ok()?;
        self.take(count)
    }
}
