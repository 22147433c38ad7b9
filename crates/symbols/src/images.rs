//! Names the frames of a Windows trace from the PDBs of its images.
//!
//! A frame's offset is an RVA, and its module's build id is the PDB's GUID and age. Only that PDB
//! names it.

use crate::demangle::demangle_msvc;
use crate::fetch::Fetching;
use crate::naming::{listed, set_names};
use crate::pdb::PdbId;
use crate::pdb::store::{NoPdb, SymbolPath};
use rayon::prelude::*;
use std::collections::BTreeMap;
use unhitch_model::units::plural;
use unhitch_model::{FrameId, ModuleKind, Trace};

/// Why an image's frames have no names, in the order of the warnings.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Nameless {
    NotRecorded,
    Pdb(NoPdb),
}

/// The frames of one image that have no names yet.
struct Job {
    image: String,
    pdb: String,
    id: Option<PdbId>,
    frames: Vec<FrameId>,
    rvas: Vec<u32>,
}

/// Names every frame of an image that has no name yet. Adds to the trace's warnings which images
/// get no names, and why.
pub(crate) fn name(trace: &mut Trace, path: &SymbolPath, fetching: &Fetching) {
    let jobs = jobs(trace);
    if jobs.is_empty() {
        return;
    }
    let recorded = jobs.iter().filter(|job| job.id.is_some()).count();
    if path.is_empty() && recorded > 0 {
        // Methods of .NET have names without a PDB.
        let but = if trace.symbols.is_empty() { "" } else { " except those of .NET methods" };
        trace.warnings.add(format!("no function names{but}: {}", needed(recorded)));
        return;
    }
    let named: Vec<Result<Vec<Option<String>>, Nameless>> =
        jobs.par_iter().map(|job| job.run(path, fetching)).collect();
    let mut nameless: BTreeMap<Nameless, Vec<&str>> = BTreeMap::new();
    for (job, names) in jobs.iter().zip(named) {
        match names {
            Ok(names) => set_names(trace, job.frames.iter().copied().zip(names)),
            Err(why) => nameless.entry(why).or_default().push(&job.image),
        }
    }
    for (why, mut images) in nameless {
        images.sort_unstable();
        images.dedup();
        trace.warnings.add(why.warning(&images, path));
    }
}

fn jobs(trace: &Trace) -> Vec<Job> {
    let mut jobs: BTreeMap<_, Job> = BTreeMap::new();
    for (index, frame) in trace.stacks.frames().iter().enumerate() {
        let id = FrameId(index as u32);
        let Some(module) = trace.modules.get(frame.module) else { continue };
        let (ModuleKind::Image { pdb, .. }, Ok(rva)) = (module.kind, u32::try_from(frame.offset))
        else {
            continue;
        };
        if trace.symbols.get(id).is_empty() {
            let path = trace.name(module.path);
            let job = jobs.entry(frame.module).or_insert_with(|| Job {
                image: path.rsplit(['/', '\\']).next().unwrap_or(path).to_owned(),
                pdb: trace.name(pdb).to_owned(),
                id: PdbId::from_build_id(&module.build_id),
                frames: Vec::new(),
                rvas: Vec::new(),
            });
            job.frames.push(id);
            job.rvas.push(rva);
        }
    }
    jobs.into_values().collect()
}

impl Job {
    fn run(&self, path: &SymbolPath, fetching: &Fetching) -> Result<Vec<Option<String>>, Nameless> {
        let id = self.id.ok_or(Nameless::NotRecorded)?;
        let mut pdb = path.find(&self.pdb, id, fetching).map_err(Nameless::Pdb)?;
        let names = pdb.names(&self.rvas);
        Ok(names.into_iter().map(|name| Some(demangle_msvc(&name?))).collect())
    }
}

impl Nameless {
    fn warning(self, images: &[&str], path: &SymbolPath) -> String {
        let listed = listed(images);
        let count = plural(images.len() as u64, "image");
        match self {
            Self::NotRecorded => {
                format!(
                    "no symbols for {count} whose PDB the trace does not identify (xperf -merge, \
                     UIforETW and WPR add this): {listed}"
                )
            }
            Self::Pdb(NoPdb::NotThere) => {
                format!("no symbols for {listed}: {}", not_there(path, images.len()))
            }
            Self::Pdb(NoPdb::OtherBuild) => {
                format!("no symbols for {count}: only PDBs of other builds were found: {listed}")
            }
            Self::Pdb(NoPdb::Damaged) => {
                format!("no symbols for {count} whose PDB is damaged: {listed}")
            }
            Self::Pdb(NoPdb::NotFetched(why)) => {
                format!("no symbols for {count} whose PDB was not fetched: {why}: {listed}")
            }
            Self::Pdb(NoPdb::Compressed) => {
                format!(
                    "no symbols for {count} whose PDB is compressed (.pd_; expand it with expand \
                     or cabextract): {listed}"
                )
            }
        }
    }
}

/// What to do if no symbol path is given.
fn needed(images: usize) -> String {
    let pdbs = if images == 1 {
        "the PDB of 1 image is".to_owned()
    } else {
        format!("the PDBs of {images} images are")
    };
    format!(
        "{pdbs} needed; name a folder, a symbol store or a server in _NT_SYMBOL_PATH, or with \
         --symbols"
    )
}

/// Where the PDBs of the images just listed were looked for.
fn not_there(path: &SymbolPath, images: usize) -> String {
    let pdbs = if images == 1 { "its PDB is" } else { "their PDBs are" };
    let servers = path.servers().collect::<Vec<_>>().join(", ");
    match servers.as_str() {
        "" => format!("{pdbs} in none of the folders of the symbol path"),
        servers => format!("{pdbs} neither in the folders of the symbol path nor on {servers}"),
    }
}
