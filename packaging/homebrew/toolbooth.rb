# A template: `cargo xtask packages` fills in the version, the archive and its hash. Set HOMEBREW_TOOLBOOTH_URL to the
# folder that has the archives.
class Toolbooth < Formula
  desc "Gateway between AI agents and their tool servers (Model Context Protocol)"
  version "@VERSION@"
  license "Apache-2.0"
  url "#{ENV.fetch("HOMEBREW_TOOLBOOTH_URL", "file://#{__dir__}")}/@ARCHIVE@"
  sha256 "@SHA256@"

  depends_on :linux

  def install
    bin.install "toolbooth"
    man1.install Dir["man/*.1.gz"]
    bash_completion.install "completions/bash-completion/toolbooth"
    fish_completion.install "completions/fish/toolbooth.fish"
    zsh_completion.install "completions/zsh/_toolbooth"
  end

  service do
    run [opt_bin/"toolbooth", "--no-project", "serve"]
    keep_alive crashed: true
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/toolbooth --version")
    assert_match "hello", shell_output("#{bin}/toolbooth --no-project call demo_echo text=hello")
  end
end
