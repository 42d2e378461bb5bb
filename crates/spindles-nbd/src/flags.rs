//! Sets of flags.

macro_rules! flags {
    ($(#[$about:meta])* $name:ident { $($(#[$what:meta])* $flag:ident = $bit:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name(pub u16);

        impl $name {
            $($(#[$what])* pub const $flag: Self = Self(1 << $bit);)*

            /// All defined flags.
            pub const ALL: Self = Self(0 $(| 1 << $bit)*);

            /// Returns true if all of `flags` are set.
            #[must_use]
            pub const fn contains(self, flags: Self) -> bool {
                self.0 & flags.0 == flags.0
            }

            /// Returns `self` with `flags` added.
            #[must_use]
            pub const fn with(self, flags: Self) -> Self {
                Self(self.0 | flags.0)
            }

            /// Returns `self` with `flags` removed.
            #[must_use]
            pub const fn without(self, flags: Self) -> Self {
                Self(self.0 & !flags.0)
            }
        }
    };
}

flags! {
    /// Capabilities of an export.
    TransmissionFlags {
        /// Always set.
        HAS_FLAGS = 0,
        /// The export is read-only.
        READ_ONLY = 1,
        /// Flush is supported.
        SEND_FLUSH = 2,
        /// [`CommandFlags::FUA`] is supported.
        SEND_FUA = 3,
        /// The export is on rotating media: sequential access is faster.
        ROTATIONAL = 4,
        /// Trim is supported.
        SEND_TRIM = 5,
        /// Write-zeroes is supported.
        SEND_WRITE_ZEROES = 6,
        /// [`CommandFlags::DF`] is supported.
        SEND_DF = 7,
        /// A flush on one connection covers the writes answered on all connections.
        CAN_MULTI_CONN = 8,
        /// Resize is supported.
        SEND_RESIZE = 9,
        /// Cache is supported.
        SEND_CACHE = 10,
        /// [`CommandFlags::FAST_ZERO`] is supported.
        SEND_FAST_ZERO = 11,
        /// Block status accepts a payload that lists the contexts.
        BLOCK_STATUS_PAYLOAD = 12,
    }
}

flags! {
    /// Modifiers of a command.
    CommandFlags {
        /// The written data is durable before the reply is sent.
        FUA = 0,
        /// Write-zeroes: keep the space allocated.
        NO_HOLE = 1,
        /// Read: reply in one piece.
        DF = 2,
        /// Block status: return one extent only.
        REQ_ONE = 3,
        /// Write-zeroes: fail if zeroing is no faster than writing.
        FAST_ZERO = 4,
        /// The length field gives the length of a payload.
        PAYLOAD_LEN = 5,
    }
}
