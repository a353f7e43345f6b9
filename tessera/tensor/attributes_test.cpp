// Attributes for generic code: text, equality, hash, copies.
#include "tessera/tensor/attributes.h"

#include <gtest/gtest.h>

#include "tessera/base/testing/expect_error.h"

namespace tessera::tensor {
namespace {

struct ReduceAttributes {
  IntList dims = {};
  bool keepdim = false;
  TESSERA_ATTRIBUTES(dims, keepdim)
};

struct AllKinds {
  std::int64_t count = -3;
  double scale = 0.5;
  Scalar value = 2;
  DType dtype = DType::kBF16;
  Shape shape = {2, 3};
  std::string name = "a,b";
  layout::IndexMap index = {};
  std::vector<layout::IndexMap> maps = {};
  TESSERA_ATTRIBUTES(count, scale, value, dtype, shape, name, index, maps)
};

struct SameFields {
  IntList dims = {};
  bool keepdim = false;
  TESSERA_ATTRIBUTES(dims, keepdim)
};

TEST(Attributes, AreWrittenByTheNamesOfTheirFields) {
  EXPECT_EQ(AttributesRef(ReduceAttributes{{0, -1}, true}).text(), "dims=[0, -1], keepdim=true");
  EXPECT_EQ(AttributesRef().text(), "");
  EXPECT_EQ(AttributesRef(AllKinds{}).text(),
            "count=-3, scale=0.5, value=2, dtype=bf16, shape=[2, 3], name=\"a,b\", index=0:0, maps=[]");
}

TEST(Attributes, ScalarsAreWrittenByTheirKind) {
  EXPECT_EQ(to_string(Scalar(2)), "2");
  EXPECT_EQ(to_string(Scalar(0.5)), "0.5");
  EXPECT_EQ(to_string(Scalar(true)), "true");
  EXPECT_EQ(to_string(Scalar(std::complex<double>(1, -2))), "1-2i");
}

TEST(Attributes, AreEqualWhenTypeAndValuesAre) {
  const ReduceAttributes a{{0, 1}, true};
  const ReduceAttributes b{{0, 1}, true};
  const ReduceAttributes c{{0, 2}, true};
  const SameFields d{{0, 1}, true};
  EXPECT_TRUE(AttributesRef(a) == AttributesRef(b));
  EXPECT_FALSE(AttributesRef(a) == AttributesRef(c));
  EXPECT_FALSE(AttributesRef(a) == AttributesRef(d));
  EXPECT_FALSE(AttributesRef(a) == AttributesRef());
  EXPECT_TRUE(AttributesRef() == AttributesRef());
}

TEST(Attributes, HashByTheirValuesAndTheirPlaces) {
  const auto hash = [](const ReduceAttributes& a) { return AttributesRef(a).hash(); };
  EXPECT_EQ(hash({{0, 1}, true}), hash({{0, 1}, true}));
  EXPECT_NE(hash({{0, 1}, true}), hash({{1, 0}, true}));
  EXPECT_NE(hash({{0, 1}, true}), hash({{0, 1}, false}));
  AllKinds a;
  AllKinds b;
  std::swap(a.count, b.count);
  EXPECT_EQ(AttributesRef(a).hash(), AttributesRef(b).hash());
  b.shape = {3, 2};
  EXPECT_NE(AttributesRef(a).hash(), AttributesRef(b).hash());
}

TEST(Attributes, AreReadOnlyAsWhatTheyAre) {
  const ReduceAttributes a{{2}, false};
  EXPECT_EQ(AttributesRef(a).as<ReduceAttributes>().dims[0], 2);
  expect_error<InvalidArgument>([&] { (void)AttributesRef(a).as<AllKinds>(); },
                                {"attributes (dims=[2], keepdim=false) cannot be read as (count, scale"});
  expect_error<InvalidArgument>([&] { (void)AttributesRef(a).as<SameFields>(); }, {"cannot be read as"});
}

TEST(Attributes, AMismatchSaysWhatWasAskedForAndCanMakeIt) {
  try {
    (void)AttributesRef().as<AllKinds>();
    FAIL() << "nothing was thrown";
  } catch (const AttributesMismatch& error) {
    EXPECT_EQ(error.asked(), attributes_type<AllKinds>());
    const auto made = error.asked().make();
    EXPECT_EQ(AttributesRef(made.get(), error.asked()).as<AllKinds>().scale, 0.5);
  }
}

// The library and a program that uses it each have a table for one struct.
TEST(Attributes, TablesOfOneStructAreOneType) {
  AttributesType other = attributes_type<ReduceAttributes>();
  const ReduceAttributes a{{3}, true};
  const AttributesRef foreign(&a, other);
  EXPECT_EQ(foreign.as<ReduceAttributes>().dims[0], 3);
  EXPECT_TRUE(foreign == AttributesRef(a));
  EXPECT_THROW((void)foreign.as<SameFields>(), AttributesMismatch);
}

TEST(Attributes, KeptOnesAreACopy) {
  Attributes kept;
  {
    ReduceAttributes a{{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, true};
    kept = Attributes(AttributesRef(a));
    a.dims = {};
  }
  EXPECT_EQ(kept.ref().as<ReduceAttributes>().dims.size(), 10U);
  EXPECT_TRUE(kept.ref() == AttributesRef(ReduceAttributes{{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, true}));
  const Attributes again = kept;
  EXPECT_EQ(again.ref().data(), kept.ref().data()) << "copies of a kept one share it";
  EXPECT_EQ(Attributes().ref().text(), "");
  EXPECT_TRUE(Attributes(AttributesRef()).ref() == AttributesRef());
}

}  // namespace
}  // namespace tessera::tensor
