//! The keywords that the gateway checks, and the values that each must have. All others are annotations.

/// The kind of value that a keyword must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeywordValue {
    Schema,
    /// A list of at least one schema.
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
    /// A number greater than 0.
    Step,
    /// A number; in draft 04 a flag that modifies the limit next to it.
    Limit,
    Flag,
    Anything,
    /// The keyword is not supported, whatever its value.
    Unsupported,
}

impl KeywordValue {
    /// The kind of value in words.
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
            Self::Count => "a whole number, 0 or greater",
            Self::Number | Self::Limit => "a number",
            Self::Step => "a number greater than 0",
            Self::Flag => "true or false",
            Self::Anything | Self::Unsupported => "anything",
        }
    }
}

/// A schema in words.
pub(super) const A_SCHEMA: &str = "a schema: an object, or true or false";

/// The names of types.
pub(super) const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "object", "array", "null"];

/// The kind of value that this keyword must have; `None` for a keyword that is not checked.
pub(super) fn keyword_value(keyword: &str) -> Option<KeywordValue> {
    Some(match keyword {
        "type" => KeywordValue::Types,
        "properties" | "$defs" | "definitions" | "dependentSchemas" => KeywordValue::SchemaMap,
        "items" => KeywordValue::SchemaOrSchemas,
        "enum" => KeywordValue::Values,
        "const" => KeywordValue::Anything,
        "required" => KeywordValue::Names,
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => KeywordValue::Schemas,
        "additionalProperties"
        | "contains"
        | "propertyNames"
        | "not"
        | "if"
        | "then"
        | "else"
        | "additionalItems"
        | "unevaluatedItems"
        | "unevaluatedProperties" => KeywordValue::Schema,
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties"
        | "minContains" | "maxContains" => KeywordValue::Count,
        "minimum" | "maximum" => KeywordValue::Number,
        "exclusiveMinimum" | "exclusiveMaximum" => KeywordValue::Limit,
        "multipleOf" => KeywordValue::Step,
        "uniqueItems" => KeywordValue::Flag,
        "pattern" => KeywordValue::Pattern,
        "patternProperties" => KeywordValue::PatternMap,
        "dependencies" => KeywordValue::Dependencies,
        "dependentRequired" => KeywordValue::NameMap,
        "$ref" => KeywordValue::Reference,
        "$dynamicRef" | "$recursiveRef" => KeywordValue::Unsupported,
        _ => return None,
    })
}
