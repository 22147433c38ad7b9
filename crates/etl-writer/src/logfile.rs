//! [`LogFile`]: the first event of every file, which defines how to read the rest.

use crate::Bytes;

/// `TRACE_LOGFILE_HEADER` with the two names behind it.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the fields are those of the format")]
pub struct LogFile {
    pub buffer_bytes: u32,
    pub build: u32,
    pub cpus: u32,
    pub end_filetime: u64,
    pub max_file_mib: u32,
    pub mode: u32,
    pub buffers_written: u32,
    pub pointer_width: u8,
    pub events_lost: u32,
    pub cpu_mhz: u32,
    pub perf_freq: u64,
    pub start_filetime: u64,
    pub clock_type: u32,
    pub buffers_lost: u32,
    pub session: String,
    pub file: String,
    pub sub_version: u8,
}

impl LogFile {
    pub(crate) fn payload(&self) -> Vec<u8> {
        let zone = Bytes::new().u32(-60_i32 as u32).raw(&[0; 168]);
        Bytes::new()
            .u32(self.buffer_bytes)
            .u8(10)
            .u8(0)
            .u8(self.sub_version)
            .u8(0)
            .u32(self.build)
            .u32(self.cpus)
            .u64(self.end_filetime)
            .u32(156_250)
            .u32(self.max_file_mib)
            .u32(self.mode)
            .u32(self.buffers_written)
            .u32(1)
            .u32(u32::from(self.pointer_width))
            .u32(self.events_lost)
            .u32(self.cpu_mhz)
            .pointer(self.pointer_width, 0)
            .pointer(self.pointer_width, 0)
            .raw(&zone.0)
            .align(8)
            .u64(self.start_filetime - 864_000_000_000)
            .u64(self.perf_freq)
            .u64(self.start_filetime)
            .u32(self.clock_type)
            .u32(self.buffers_lost)
            .utf16(&self.session)
            .utf16(&self.file)
            .0
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn fields_are_where_the_format_has_them() {
        for (width, freq_at) in [(4, 240 + 8), (8, 240 + 16)] {
            let mut writer = crate::Options { pointer_width: width, ..crate::Options::default() };
            writer.ticks_per_second = 0x1234_5678;
            let payload = writer.log_file(1).payload();
            assert_eq!(payload[freq_at..freq_at + 8], 0x1234_5678_u64.to_le_bytes(), "{width}");
            assert_eq!(payload[0x2c], width);
        }
    }
}
