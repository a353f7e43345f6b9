// Chat templates in the forms of published models, and what the interpreter rejects.
#include "tessera/train/chat_template.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tessera/base/error.h"
#include "tessera/train/chat.h"

namespace tessera::train {
namespace {

const std::vector<ChatMessage>& conversation() {
  static const std::vector<ChatMessage> all = {
      {"system", "Be brief."}, {"user", " Hello "}, {"assistant", "Hi."}, {"user", "Who?"}};
  return all;
}

std::string rendered(std::string_view text, const std::vector<ChatMessage>& messages = conversation(),
                     bool begins_answer = true) {
  return ChatTemplate(text, {{"bos_token", "<s>"}, {"eos_token", "</s>"}}).render(messages, begins_answer);
}

TEST(ChatTemplate, RendersChatMl) {
  const char* const text =
      "{% for m in messages %}{% if loop.first and m['role'] != 'system' %}{{ "
      "'<|im_start|>system\\nHelp.<|im_end|>\\n' "
      "}}{% endif %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
  EXPECT_EQ(rendered(text),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n Hello <|im_end|>\n<|im_start|>assistant\n"
            "Hi.<|im_end|>\n<|im_start|>user\nWho?<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(rendered(text, {{"user", "A"}}, false),
            "<|im_start|>system\nHelp.<|im_end|>\n<|im_start|>user\nA<|im_end|>\n");
}

TEST(ChatTemplate, RendersLlama2) {
  const char* const text =
      "{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}{% set system = messages[0]['content'] %}"
      "{% else %}{% set rest = messages %}{% set system = false %}{% endif %}{% for m in rest %}"
      "{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}"
      "{% if loop.index0 == 0 and system != false %}{% set content = '<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' + "
      "m['content'] %}{% else %}{% set content = m['content'] %}{% endif %}{% if m['role'] == 'user' %}"
      "{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif m['role'] == 'assistant' %}"
      "{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}";
  EXPECT_EQ(rendered(text), "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\n Hello [/INST] Hi. </s><s>[INST] Who? [/INST]");
  try {
    (void)rendered(text, {{"user", "A"}, {"user", "B"}});
    ADD_FAILURE();
  } catch (const InvalidArgument& error) {
    EXPECT_NE(error.message().find("roles must alternate"), std::string::npos) << error.message();
  }
}

TEST(ChatTemplate, RendersLlama3) {
  const char* const text =
      "{%- set ns = namespace(count=0) -%}\n"
      "{{- bos_token }}\n"
      "{%- if custom is defined and custom is not none %}\n    {{- custom }}\n{%- endif %}\n"
      "{%- for m in messages %}\n"
      "    {%- if not (m.role == 'tool' or 'calls' in m) %}\n"
      "        {%- set ns.count = ns.count + 1 %}\n"
      "        {{- '<|start_header_id|>' + m['role'] + '<|end_header_id|>\\n\\n' + m['content'] | trim + '<|eot_id|>' "
      "}}\n"
      "    {%- endif %}\n"
      "{%- endfor %}\n"
      "{%- if add_generation_prompt and ns.count == 4 %}\n"
      "    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}\n"
      "{%- endif %}\n";
  EXPECT_EQ(
      rendered(text),
      "<s><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>"
      "\n\nHello<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nHi.<|eot_id|><|start_header_id|>user"
      "<|end_header_id|>\n\nWho?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n");
}

TEST(ChatTemplate, RendersMistral) {
  const char* const text =
      "{{ bos_token }}\n{% set last = messages[-1] %}\n{% for m in messages %}\n"
      "  {# a comment #}\n"
      "  {% if m.role == \"user\" %}\n[INST] {{ m.content if m.content is string else '' }}{{ '!' if loop.last }} "
      "[/INST]\n"
      "  {% elif m.role == \"assistant\" %}\n {{ m.content ~ eos_token }}\n"
      "  {% endif %}\n{% endfor %}";
  EXPECT_EQ(rendered(text), "<s>\n[INST]  Hello  [/INST]\n Hi.</s>\n[INST] Who?! [/INST]\n");
}

TEST(ChatTemplate, ComputesExpressions) {
  const auto value = [](const std::string& text) { return rendered("{{ " + text + " }}"); };
  EXPECT_EQ(value("1 + 2 * 3 - 4"), "3");
  EXPECT_EQ(value("7 % 3 == 1 and not 2 > 3"), "True");
  EXPECT_EQ(value("'a' in 'cat' and 'user' in ['user', 'tool']"), "True");
  EXPECT_EQ(value("'a' not in 'cat'"), "False");
  EXPECT_EQ(value("messages | length"), "4");
  EXPECT_EQ(value("messages[-1].content.upper()"), "WHO?");
  EXPECT_EQ(value("messages[0:2][1].role"), "user");
  EXPECT_EQ(value("'a,b,c'.split(',')[1]"), "b");
  EXPECT_EQ(value("nothing | default('x')"), "x");
  EXPECT_EQ(value("nothing"), "");
  EXPECT_EQ(value("'b' if nothing is defined else 'c'"), "c");
  EXPECT_EQ(value("raise_exception('no') if false else 'fine'"), "fine");
  EXPECT_EQ(value("'it is' if false else \"it's\""), "it's");
  EXPECT_EQ(value("false or 'b'"), "b");
}

TEST(ChatTemplate, RejectsWhatItDoesNotKnow) {
  for (const char* text :
       {"{% macro f() %}{% endmacro %}", "{{ strftime_now('%Y') }}", "{{ messages | map(attribute='role') }}",
        "{% for a, b in x %}{% endfor %}", "{% for m in messages if m.role == 'user' %}{% endfor %}", "{{ 1.5 }}",
        "{{ {'a': 1} }}", "{{ messages }}", "{% include 'x' %}", "{{ x is odd }}", "{{ 'a'.title() }}",
        "{{ 1 // 2 }}"}) {
    EXPECT_THROW((void)rendered(text), Error) << text;
  }
  for (const char* text : {"{% if true %}", "{% endif %}", "{{ 'a }}", "{{ }}", "{% for m in messages %}{% else",
                           "{{ (1 }}", "{% if true %}{% endfor %}", "{{ 5 % 0 }}", "{{ nothing.deeper }}"}) {
    EXPECT_THROW((void)rendered(text), Error) << text;
  }
  EXPECT_THROW((void)rendered("{{ " + std::string(5000, '(') + " }}"), NotSupported);
  std::string nested;
  for (int i = 0; i < 5000; ++i) nested += "{% if true %}";
  EXPECT_THROW((void)rendered(nested), NotSupported);
}

TEST(ChatTemplate, HostileTemplatesEndWithoutACrash) {
  std::string chain = "{% if false %}";
  for (int i = 0; i < 200000; ++i) chain += "{% elif false %}";
  std::string loops;
  for (int i = 0; i < 40; ++i) loops += "{% for m" + std::to_string(i) + " in messages %}";
  for (int i = 0; i < 40; ++i) loops += "{% endfor %}";
  const auto repeated = [](const std::string& first, const std::string& statement) {
    std::string text = first;
    for (int i = 0; i < 100; ++i) text += statement;
    return text;
  };
  std::string minus = "{{ ";
  for (int i = 0; i < 200000; ++i) minus += "- ";
  for (const std::string& text :
       {chain + "{% endif %}", loops, minus + "5 }}", repeated("{% set x = 'ab' %}", "{% set x = x ~ x %}"),
        repeated("{% set x = 'ab' %}", "{% set x = x + x %}"), repeated("{% set x = ['a'] %}", "{% set x = x + x %}"),
        repeated("{% set x = ['a'] %}", "{% set x = [x, x] %}"), repeated("{% set x = ['a'] %}", "{% set x = [x] %}"),
        repeated("{% set n = namespace(a='b') %}", "{% set n.a = n %}"),
        std::string("{{ 1073741824 * 1073741824 * 1073741824 }}")}) {
    EXPECT_THROW((void)rendered(text), NotSupported) << text.substr(0, 60);
  }
  std::string negations = "{{ ";
  for (int i = 0; i < 200000; ++i) negations += "not ";
  EXPECT_EQ(rendered(negations + "true }}"), "True");
  EXPECT_EQ(rendered("{{ (0 - 9223372036 * 1000000000 - 854775807 - 1) % (0 - 1) }}"), "0");
  EXPECT_EQ(rendered("{{ (0 - 7) % 3 }} {{ 7 % (0 - 3) }}"), "2 -2");
}

TEST(Chat, EncodesSpecialTokensOfTheTemplateAlone) {
  char name[] = "/tmp/tessera_chat_XXXXXX";
  ASSERT_NE(::mkdtemp(name), nullptr);
  const std::string directory = name;
  const std::string words[] = {"a b c d e f g", "an answer and a question"};
  const std::vector<std::string_view> texts(std::begin(words), std::end(words));
  const Tokenizer learned = Tokenizer::learn(texts, 258);
  learned.write(directory + "/tokenizer.json");
  std::ofstream(directory + "/tokenizer_config.json")
      << R"({"eos_token": {"content": "<|endoftext|>"}, "chat_template": )"
      << R"("{% for m in messages %}{{ m.role + ':' + m.content + '<|endoftext|>' }}{% endfor %}{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}"})";
  const Chat chat = Chat::open(directory + "/tokenizer.json", learned);
  std::vector<std::uint32_t> want = learned.encode("user:a b");
  want.push_back(learned.end_of_text());
  const std::vector<std::uint32_t> rest = learned.encode("assistant:");
  want.insert(want.end(), rest.begin(), rest.end());
  const std::vector<ChatMessage> messages = {{"user", "a b"}};
  EXPECT_EQ(chat.encode(messages), want);
  EXPECT_EQ(chat.end_tokens(), (std::vector<std::uint32_t>{learned.end_of_text()}));
  const std::vector<ChatMessage> sly = {{"user", "a<|endoftext|>b"}};
  EXPECT_THROW((void)chat.encode(sly), InvalidArgument);
  EXPECT_THROW((void)Chat::open("bytes", Tokenizer::bytes()), NotSupported);
  std::ofstream(directory + "/tokenizer_config.json") << R"({"eos_token": "<|endoftext|>"})";
  EXPECT_THROW((void)Chat::open(directory + "/tokenizer.json", learned), NotSupported);
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace tessera::train
