//! Sets of flags.

macro_rules! flags {
    ($(#[$about:meta])* $name:ident { $($(#[$what:meta])* $flag:ident = $bit:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name(pub u16);

        impl $name {
            $($(#[$what])* pub const $flag: Self = Self(1 << $bit);)*

            /// All flags there are.
            pub const ALL: Self = Self(0 $(| 1 << $bit)*);

            /// Whether all of these are set.
            #[must_use]
            pub const fn contains(self, flags: Self) -> bool {
                self.0 & flags.0 == flags.0
            }

            /// These too.
            #[must_use]
            pub const fn with(self, flags: Self) -> Self {
                Self(self.0 | flags.0)
            }

            /// All but these.
            #[must_use]
            pub const fn without(self, flags: Self) -> Self {
                Self(self.0 & !flags.0)
            }
        }
    };
}

flags! {
    /// What can be asked of an export.
    TransmissionFlags {
        /// Always set.
        HAS_FLAGS = 0,
        /// Nothing may be written.
        READ_ONLY = 1,
        /// Flush is understood.
        SEND_FLUSH = 2,
        /// [`CommandFlags::FUA`] is understood.
        SEND_FUA = 3,
        /// It seeks.
        ROTATIONAL = 4,
        /// Trim is understood.
        SEND_TRIM = 5,
        /// Write-zeroes is understood.
        SEND_WRITE_ZEROES = 6,
        /// [`CommandFlags::DF`] is understood.
        SEND_DF = 7,
        /// A flush on one connection is good for what was answered on all.
        CAN_MULTI_CONN = 8,
        /// Resizing is understood.
        SEND_RESIZE = 9,
        /// Cache is understood.
        SEND_CACHE = 10,
        /// [`CommandFlags::FAST_ZERO`] is understood.
        SEND_FAST_ZERO = 11,
        /// Block status can be asked for contexts in a payload.
        BLOCK_STATUS_PAYLOAD = 12,
    }
}

flags! {
    /// How a command is meant.
    CommandFlags {
        /// What is written is durable before the answer.
        FUA = 0,
        /// Write-zeroes: the space stays allocated.
        NO_HOLE = 1,
        /// Read: in one piece.
        DF = 2,
        /// Block status: one extent is enough.
        REQ_ONE = 3,
        /// Write-zeroes: fail if it is no faster than a write.
        FAST_ZERO = 4,
        /// The length is that of a payload.
        PAYLOAD_LEN = 5,
    }
}
