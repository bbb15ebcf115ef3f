//! Synonyms, as they occur in the names of tools and in requests.

use crate::words::Stems;
use std::collections::HashMap;
use std::sync::OnceLock;

/// Each line is one group of synonyms. A word may be in several groups.
const SENSES: &[&str] = &[
    "delete remove erase destroy purge drop discard",
    "create add make new insert generate",
    "get fetch retrieve read obtain load",
    "list show enumerate display browse",
    "update edit modify change alter set patch",
    "search find lookup query locate discover",
    "send post deliver submit dispatch",
    "start run launch execute begin invoke trigger",
    "stop cancel abort halt terminate kill end",
    "copy duplicate clone",
    "move rename relocate transfer",
    "save write store persist",
    "download fetch pull",
    "upload push attach",
    "check verify validate test inspect",
    "convert transform translate export",
    "compare diff difference",
    "summarize summary digest overview brief",
    "analyze analysis examine evaluate assess",
    "count number total quantity",
    "buy purchase order",
    "book reserve reservation schedule",
    "schedule calendar appointment event meeting",
    "install setup deploy",
    "enable activate",
    "disable deactivate",
    "merge combine join",
    "split divide separate",
    "approve accept confirm",
    "reject decline deny",
    "assign allocate",
    "subscribe follow watch",
    "reply respond answer",
    "comment note remark annotation",
    "open visit navigate browse",
    "picture image photo photograph",
    "image screenshot capture",
    "movie film video",
    "song music track audio",
    "email mail message inbox",
    "message chat sms text",
    "document doc file",
    "spreadsheet excel xlsx sheet workbook",
    "presentation slide powerpoint ppt pptx deck",
    "word docx document",
    "folder directory dir",
    "website site webpage page url web",
    "internet web online",
    "link url hyperlink",
    "repo repository",
    "pr pull request",
    "bug issue ticket defect",
    "task todo",
    "db database sql",
    "table dataset",
    "k8s kubernetes",
    "vm instance machine",
    "config configuration setting preference option",
    "env environment",
    "info information detail metadata",
    "user person member people account",
    "company business firm organization",
    "org organization",
    "client customer",
    "team group",
    "employee staff worker",
    "price cost fee rate",
    "money currency payment finance",
    "stock share equity market",
    "crypto bitcoin cryptocurrency coin",
    "invoice bill receipt",
    "weather forecast temperature climate",
    "map location place geography",
    "route direction path itinerary",
    "trip travel journey tour vacation holiday",
    "hotel accommodation lodging",
    "flight airline airplane plane",
    "car vehicle automobile",
    "restaurant food dining eat meal",
    "recipe cook cuisine dish",
    "doctor physician medical health",
    "drug medicine medication pharmaceutical",
    "house home property apartment",
    "job career position vacancy work",
    "paper article publication research study",
    "book novel reading",
    "news headline article",
    "language translate translation",
    "chart graph plot diagram visualize",
    "statistic stat metric measure",
    "log trace history",
    "error exception failure crash",
    "alert alarm notification notify",
    "permission access role right",
    "password secret credential",
    "key token",
    "code program script source",
    "branch revision",
    "release version",
    "time clock hour",
    "date day",
    "game play",
    "gift present",
    "fitness exercise workout",
    "lesson course class tutorial learn education",
];

type Senses = HashMap<Box<str>, Vec<Box<str>>>;

/// The synonyms of a stem, as stems.
pub(crate) fn of(stem: &str) -> &'static [Box<str>] {
    static READY: OnceLock<Senses> = OnceLock::new();
    READY.get_or_init(read).get(stem).map_or(&[], Vec::as_slice)
}

fn read() -> Senses {
    let stems = Stems::default();
    let mut senses = Senses::new();
    for line in SENSES {
        let words: Vec<Box<str>> = line.split(' ').map(|word| Box::from(&*stems.of(word))).collect();
        for word in &words {
            let others = senses.entry(word.clone()).or_default();
            for other in &words {
                if other != word && !others.contains(other) {
                    others.push(other.clone());
                }
            }
        }
    }
    senses
}
