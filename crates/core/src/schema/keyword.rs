//! The keywords that the gateway checks, and what the value of each must be. All others are notes.

/// What a keyword's value must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Schema,
    /// A list of at least one.
    Schemas,
    SchemaOrSchemas,
    SchemaMap,
    /// Schemas by pattern.
    PatternMap,
    /// Schemas or lists of names by key.
    Dependencies,
    NameMap,
    Names,
    Types,
    Values,
    Pattern,
    Reference,
    Count,
    Number,
    /// A number over nought.
    Step,
    /// A number; a flag in draft 04, where it speaks of the number beside it.
    Limit,
    Flag,
    Anything,
    /// What it must be does not matter: it is not supported.
    Never,
}

impl Wanted {
    /// What it must be, in words.
    pub(super) fn in_words(self) -> &'static str {
        match self {
            Self::Schema | Self::SchemaOrSchemas => A_SCHEMA,
            Self::Schemas => "a list of at least one schema",
            Self::SchemaMap | Self::PatternMap => "an object of schemas",
            Self::Dependencies => "an object of schemas or lists of names",
            Self::NameMap => "an object of lists of names",
            Self::Names => "a list of names",
            Self::Types => "a type's name",
            Self::Values => "a list of at least one value",
            Self::Pattern | Self::Reference => "a string",
            Self::Count => "a whole number, nought or more",
            Self::Number | Self::Limit => "a number",
            Self::Step => "a number over nought",
            Self::Flag => "true or false",
            Self::Anything | Self::Never => "anything",
        }
    }
}

/// What a schema must be, in words.
pub(super) const A_SCHEMA: &str = "a schema: an object, or true or false";

/// The names of types.
pub(super) const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "object", "array", "null"];

/// What the value of this keyword must be; `None` for what is not checked.
pub(super) fn wanted(keyword: &str) -> Option<Wanted> {
    Some(match keyword {
        "type" => Wanted::Types,
        "properties" | "$defs" | "definitions" | "dependentSchemas" => Wanted::SchemaMap,
        "items" => Wanted::SchemaOrSchemas,
        "enum" => Wanted::Values,
        "const" => Wanted::Anything,
        "required" => Wanted::Names,
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => Wanted::Schemas,
        "additionalProperties"
        | "contains"
        | "propertyNames"
        | "not"
        | "if"
        | "then"
        | "else"
        | "additionalItems"
        | "unevaluatedItems"
        | "unevaluatedProperties" => Wanted::Schema,
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties"
        | "minContains" | "maxContains" => Wanted::Count,
        "minimum" | "maximum" => Wanted::Number,
        "exclusiveMinimum" | "exclusiveMaximum" => Wanted::Limit,
        "multipleOf" => Wanted::Step,
        "uniqueItems" => Wanted::Flag,
        "pattern" => Wanted::Pattern,
        "patternProperties" => Wanted::PatternMap,
        "dependencies" => Wanted::Dependencies,
        "dependentRequired" => Wanted::NameMap,
        "$ref" => Wanted::Reference,
        "$dynamicRef" | "$recursiveRef" => Wanted::Never,
        _ => return None,
    })
}
