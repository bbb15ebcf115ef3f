//! Skills: folders with a `SKILL.md`, lists of skills, errors with their place, and trust.

use crate::world::World;
use std::sync::Arc;
use toolbooth_config::TrustBook;
use toolbooth_core::skill::Skill;

const BRIEF: &str = r#"---
name: brief
description: "Writes: a brief."
version: 1.5
capability_tags: [Web Search, b]
plan:
  - { id: a, tool: t, arguments: { q: "${arguments.topic}", home: "${HOME}" } }
---
Write it.

---
Not a front matter.
"#;

fn world(files: &[(&str, &str)]) -> World {
    let world = World::new(&[("user/toolbooth.json", r#"{"personas": {"Atlas": {}}}"#)]);
    files.iter().for_each(|(path, text)| world.write(&format!("user/{path}"), text));
    world
}

fn names(skills: &[Arc<Skill>]) -> Vec<String> {
    let name = |skill: &Arc<Skill>| match &skill.persona {
        None => skill.name.clone(),
        Some(persona) => format!("{persona}/{}", skill.name),
    };
    skills.iter().map(name).collect()
}

#[test]
fn folders_and_lists_are_read() {
    let brief = BRIEF.replace(r#", home: "${HOME}""#, "");
    let world = world(&[
        ("skills/brief/SKILL.md", &brief),
        ("skills/brief/references/a.md", "# A"),
        ("skills/brief/.hidden", "x"),
        ("skills/second/skill.md", "---\ndescription: Named by its folder.\n---\nDo it.\n"),
        ("skills/list.json", r#"[{"name": "one", "instruction_prompt": "x"}]"#),
        ("skills/map.yaml", "two: { instructions: y, required_tools: [a] }\n"),
        ("skills/toml.toml", "[[skills]]\nname = \"three\"\ninstructions = \"z\"\n"),
        ("personas/Atlas/Skills/skills.json", r#"{"name": "one", "instruction_prompt": "own"}"#),
    ]);
    let loaded = world.load().unwrap();
    assert_eq!(world.report(), "");
    assert_eq!(names(&loaded.skills), ["brief", "second", "one", "two", "three", "Atlas/one"]);
    let brief = &loaded.skills[0];
    assert_eq!(brief.version.as_deref(), Some("1.5"));
    assert_eq!(brief.description.as_deref(), Some("Writes: a brief."));
    assert_eq!(brief.instructions, "Write it.\n\n---\nNot a front matter.");
    assert_eq!(brief.capability_tags, ["b", "web_search"]);
    assert!(brief.plan.is_some());
    let files: Vec<&str> = brief.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(files, ["SKILL.md", "references/a.md"]);
    assert_eq!(loaded.skills[2].files[0].path, "SKILL.md", "also for a skill without a folder");
    assert!(loaded.files.contains(&world.path("user/skills/brief/references/a.md")), "all files are watched");
}

#[test]
fn bad_skills_are_left_out_with_their_reasons() {
    let world = world(&[
        ("skills/brief/SKILL.md", BRIEF),
        ("skills/plain/SKILL.md", "Just text.\n"),
        ("skills/broken/SKILL.md", "---\nname: [\n---\nx\n"),
        ("skills/a.json", "{"),
        (
            "skills/b.json",
            r#"[{"name": "good", "instruction_prompt": "x", "allowed-tools": "Read"},
                {"name": "good", "instruction_prompt": "again"},
                {"name": "not good", "instruction_prompt": "x"},
                {"name": "empty"},
                {"name": "wrong", "instruction_prompt": "x", "plan": [{"id": "a"}, {"id": "b", "tool": "t", "after": "z"}]}]"#,
        ),
    ]);
    let loaded = world.load().unwrap();
    assert_eq!(names(&loaded.skills), ["good"]);
    let report = world.report();
    for expected in [
        "skill `brief`: `plan`: step `a`: `${HOME}` must begin with `steps.` or `arguments.`",
        "the skill has no front matter",
        "user/toolbooth/skills/broken/SKILL.md",
        "skill `good`: `allowed-tools` has no effect",
        "is defined twice",
        "skill 3: `not good` is not a valid name of a skill",
        "skill `empty`: the instructions are missing",
        "skill `wrong`: `plan`: step `a` must name its `tool`",
        "at /4/plan/0",
        "step `b` comes after the unknown step `z`",
    ] {
        assert!(report.contains(expected), "{expected}\n{report}");
    }
}

#[test]
fn the_collaboration_of_a_skill_is_kept_as_written() {
    let world = world(&[(
        "skills/a.json",
        r#"[{"name": "panel", "instruction_prompt": "x", "collaboration": {"protocol": "vote", "quorum": 0.5}},
            {"name": "wrong", "instruction_prompt": "x", "collaboration": "vote"}]"#,
    )]);
    let loaded = world.load().unwrap();
    assert_eq!(names(&loaded.skills), ["panel"]);
    let expected = serde_json::json!({ "protocol": "vote", "quorum": 0.5 });
    assert_eq!(loaded.skills[0].collaboration, Some(expected));
    let report = world.report();
    assert!(report.contains("skill `wrong`: `collaboration` must be a map of fields"), "{report}");
    assert!(!report.contains("has no effect"), "{report}");
}

#[test]
fn skills_of_a_project_need_trust_again_after_each_change() {
    let mut world = World::new(&[("work/toolbooth.json", "{}")]);
    world.write("work/skills/brief/SKILL.md", "---\nname: brief\n---\nDo it.\n");
    world.write("work/skills/brief/notes.txt", "one");
    let loaded = world.load().unwrap();
    assert_eq!(names(&loaded.skills), [""; 0]);
    assert!(world.report().contains("waits for trust"), "{}", world.report());
    let mut book = TrustBook::default();
    assert_eq!(loaded.trust_into(&mut book, None), 1);
    world.sources.trust = book;
    assert_eq!(names(&world.load().unwrap().skills), ["brief"]);
    world.write("work/skills/brief/notes.txt", "two");
    assert_eq!(names(&world.load().unwrap().skills), [""; 0], "any file of the skill counts");
}

#[test]
fn of_skills_with_one_name_the_preview_shows_all() {
    let world = World::new(&[("work/toolbooth.json", "{}")]);
    let first =
        r#"{"name": "a", "description": "used", "instructions": "x", "plan": [{"id": "p", "tool": "wipe"}]}"#;
    let second = r#"{"name": "a", "description": "harmless", "instructions": "x"}"#;
    world.write("work/skills/list.json", &format!(r#"[{first}, {second}, {{"name": "a (2)"}}]"#));
    let loaded = world.load().unwrap();
    let fields = &loaded.untrusted[0].preview.fields;
    let shown: Vec<(&str, &str)> =
        fields.iter().map(|(name, about)| (name.as_str(), about.as_str())).collect();
    assert_eq!(shown, [("a", "used (calls wipe)"), ("a (2)", "harmless"), ("a (2) (2)", "")]);
}

// Security review: the trust question showed such a file as a list of tools only.
#[test]
fn a_file_that_is_named_for_tools_and_for_skills_is_shown_as_both() {
    let both = r#"{"tools": [{"name": "t", "providers": []}],
        "skills": [{"name": "s", "description": "about", "instructions": "x"}]}"#;
    // The settings of the file that names the folder wait for trust, or are empty and need none.
    let cases = [
        ("work/toolbooth.json", r#"{"manifests": {"tools": ["both"], "skills": ["both"]}}"#),
        ("user/toolbooth.json", r#"{"manifests": {"tools": ["WORK/both"], "skills": ["WORK/both"]}}"#),
    ];
    for (path, settings) in cases {
        let world = World::new(&[("work/toolbooth.json", "{}")]);
        world.write("work/both/all.json", both);
        world.write(path, &settings.replace("WORK", &world.path("work").display().to_string()));
        let loaded = world.load().unwrap();
        let file = world.path("work/both/all.json");
        let waiting = loaded.untrusted.iter().filter(|one| one.file == file);
        let shown: Vec<Vec<&str>> =
            waiting.map(|one| one.preview.fields.keys().map(String::as_str).collect()).collect();
        assert_eq!(shown, [vec!["t"], vec!["s"]], "{path}");
        assert_eq!(names(&loaded.skills), [""; 0], "{path}");
    }
}

#[test]
fn a_broken_skill_keeps_its_last_valid_version() {
    let list = |second: &str| {
        format!(r#"[{{"name": "one", "instruction_prompt": "x"}}, {{"name": "two"{second}}}]"#)
    };
    let mut world = world(&[
        ("skills/brief/SKILL.md", "---\nname: brief\ndescription: d\n---\nWrite it.\n"),
        ("skills/list.json", &list(r#", "instruction_prompt": "y""#)),
    ]);
    world.sources.good_manifests = world.load().unwrap().good_manifests;
    world.write("user/skills/brief/SKILL.md", "---\nname: [\n---\n");
    world.write("user/skills/list.json", &list(""));
    for _ in 0..2 {
        let loaded = world.load().unwrap();
        assert_eq!(names(&loaded.skills), ["brief", "one", "two"]);
        let files = [world.path("user/skills/brief/SKILL.md"), world.path("user/skills/list.json")];
        assert_eq!(loaded.kept_manifests, files);
        let report = world.report();
        assert_eq!(report.matches("its previous version remains in effect").count(), 2, "{report}");
        world.sources.good_manifests = loaded.good_manifests;
    }
    std::fs::remove_file(world.path("user/skills/brief/SKILL.md")).unwrap();
    assert_eq!(names(&world.load().unwrap().skills), ["one", "two"], "a removed one is not kept");
}
