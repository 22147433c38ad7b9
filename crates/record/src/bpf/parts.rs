//! The programs and maps of the loaded object, by name.

use super::refused::{failed, failed_with};
use crate::error::Error;
use crate::sys::SharedArray;
use crate::unwind::{self, MAPPING_BYTES, Maps};
use aya::Ebpf;
use aya::maps::{Map, MapData};
use aya::programs::Iter;
use std::fs::File;
use std::os::fd::AsFd;

/// A map of this length, in the memory of this process, too.
pub(super) fn map(programs: &Ebpf, name: &str, len: usize) -> Result<SharedArray, Error> {
    let fd = match programs.map(name) {
        Some(Map::Array(map)) => map.fd().as_fd(),
        _ => return Err(missing(name)),
    };
    SharedArray::new(fd, len)
        .map_err(|source| Error::System { action: "map the recorder's rings", source })
}

/// The maps by which user stacks are unwound.
pub(super) fn maps(programs: &mut Ebpf) -> Result<Maps, Error> {
    let action = "use a map of the recorder";
    let mappings = map(programs, "mappings", unwind::MAPPINGS as usize * MAPPING_BYTES)?;
    let rows = map(programs, "rows", unwind::rows() as usize * 8)?;
    let mut take = |name| programs.take_map(name).ok_or_else(|| missing(name));
    let (pythons, javas, hints) = (take("pythons")?, take("javas")?, take("hints")?);
    // This side of it stays here, for saves.
    let processes = Map::HashMap(another_handle(programs, "processes")?);
    Ok(Maps {
        processes: processes.try_into().map_err(failed(action))?,
        pythons: pythons.try_into().map_err(failed(action))?,
        javas: javas.try_into().map_err(failed(action))?,
        mappings,
        rows,
        hints: hints.try_into().map_err(failed(action))?,
    })
}

/// Another handle of a map, which stays here for others.
pub(super) fn another_handle(programs: &Ebpf, name: &str) -> Result<MapData, Error> {
    let action = "use a map of the recorder";
    let (Map::Array(map) | Map::HashMap(map) | Map::RingBuf(map)) =
        programs.map(name).ok_or_else(|| missing(name))?
    else {
        return Err(missing(name));
    };
    let handle = map.fd().as_fd().try_clone_to_owned().map_err(failed(action))?;
    MapData::from_fd(handle).map_err(failed(action))
}

/// A program, by its name in C.
pub(crate) fn program<'a, P>(programs: &'a mut Ebpf, name: &str) -> Result<&'a mut P, Error>
where
    &'a mut P: TryFrom<&'a mut aya::programs::Program>,
{
    programs
        .program_mut(name)
        .and_then(|program| program.try_into().ok())
        .ok_or_else(|| missing(name))
}

/// The error that the object has no such part.
pub(super) fn missing(name: &str) -> Error {
    failed_with("find a part of the recorder", name)
}

/// What a program writes of each thread.
pub(super) fn list_threads(programs: &mut Ebpf, name: &str) -> Result<File, Error> {
    let lister: &mut Iter = program(programs, name)?;
    let link = lister.attach().map_err(failed("list the threads"))?;
    let link = lister.take_link(link).map_err(failed("list the threads"))?;
    link.into_file().map_err(failed("list the threads"))
}
