BEGIN TRANSACTION;
CREATE TABLE answers (
    account TEXT NOT NULL,
    digest TEXT NOT NULL,
    body TEXT NOT NULL, receipt TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (account, digest)
);
INSERT INTO "answers" VALUES('analyst:anna','sha256:1a56c4ec5a3661c213f2aa8782d073c26d79c18d0d03cd4482ea2e9540dadae6','{"columns":{"article":"text","people":"integer"},"rows":[{"article":"article-0","people":106},{"article":"article-1","people":47},{"article":"article-3","people":40}],"stopped":false,"receipt":{"mechanism":"unknown_gumbel","unit":"person","error95":{"people":4},"data_version":"value v1","digest":"sha256:1a56c4ec5a3661c213f2aa8782d073c26d79c18d0d03cd4482ea2e9540dadae6"},"notes":["groups below a noisy threshold are absent"]}','{"charge":{"information":"7","calls":"1"},"left":{"information":"293","calls":"19"},"resets":"2026-12-01","table":"visits","atom":"sha256:b55eba7e34532d4e01e1916130563ee85036a319fd94c0a110842da43264ddf2","worst":["call","cutoff","pick 1","count 1 gaussian 4","pick 2","count 2 gaussian 4","pick 3","count 3 gaussian 4"]}');
INSERT INTO "answers" VALUES('analyst:anna','sha256:930c28ad272b01485b0daa0fccf856437201259827d88d48a806eb68a2fc5ef9','{"columns":{"article":"text","people":"integer"},"rows":[{"article":"article-0","people":106},{"article":"article-1","people":47},{"article":"article-3","people":40},{"article":"article-4","people":32},{"article":"article-2","people":34},{"article":"article-7","people":25}],"stopped":false,"receipt":{"mechanism":"unknown_gumbel","unit":"person","error95":{"people":4},"data_version":"value v1","digest":"sha256:930c28ad272b01485b0daa0fccf856437201259827d88d48a806eb68a2fc5ef9"},"notes":["groups below a noisy threshold are absent"]}','{"charge":{"information":"6","calls":"0"},"left":{"information":"287","calls":"19"},"resets":"2026-12-01","table":"visits","atom":"sha256:b55eba7e34532d4e01e1916130563ee85036a319fd94c0a110842da43264ddf2","worst":["call","cutoff","pick 1","count 1 gaussian 4","pick 2","count 2 gaussian 4","pick 3","count 3 gaussian 4","pick 4","count 4 gaussian 4","pick 5","count 5 gaussian 4","pick 6","count 6 gaussian 4"]}');
INSERT INTO "answers" VALUES('analyst:anna','sha256:3df5f966c2abcbb277a49b9406541aad96acf1397871541b6c0f9e98bc871dc0','{"columns":{"article":"text"},"rows":[{"article":"article-0"},{"article":"article-1"}],"stopped":true,"receipt":{"mechanism":"unknown_gumbel","unit":"person","error95":{},"data_version":"value v1","digest":"sha256:3df5f966c2abcbb277a49b9406541aad96acf1397871541b6c0f9e98bc871dc0"},"notes":["groups below a noisy threshold are absent"]}','{"charge":{"information":"4","calls":"1"},"left":{"information":"283","calls":"18"},"resets":"2026-12-01","table":"visits","atom":"sha256:c0a96dc2d2b8c598e92fa777a46b1dbf6a592fc0191fee36ac4a1a8326e78214","worst":["call","cutoff","pick 1","pick 2","pick 3","pick 4"]}');
INSERT INTO "answers" VALUES('analyst:anna','sha256:25060c249c1b3675cbb08df78a13c4ae1f20157afab96eeab2c3fab1f76be5e4','{"columns":{"region":"text","people":"integer"},"rows":[{"region":"emea","people":70},{"region":"apac","people":69},{"region":"amer","people":64}],"stopped":false,"receipt":{"mechanism":"known_gaussian","unit":"person","error95":{"people":4},"data_version":"value v1","digest":"sha256:25060c249c1b3675cbb08df78a13c4ae1f20157afab96eeab2c3fab1f76be5e4"},"notes":[]}','{"charge":{"information":"1","calls":"0"},"left":{"information":"282","calls":"18"},"resets":"2026-12-01","table":"visits","atom":"sha256:d983c27adf9f12ac3e3d07809851bb37d8043970863603b816fc2b6940a480fb","worst":["histogram"]}');
INSERT INTO "answers" VALUES('analyst:ben','sha256:25060c249c1b3675cbb08df78a13c4ae1f20157afab96eeab2c3fab1f76be5e4','{"columns":{"region":"text","people":"integer"},"rows":[{"region":"emea","people":70},{"region":"apac","people":69},{"region":"amer","people":64}],"stopped":false,"receipt":{"mechanism":"known_gaussian","unit":"person","error95":{"people":4},"data_version":"value v1","digest":"sha256:25060c249c1b3675cbb08df78a13c4ae1f20157afab96eeab2c3fab1f76be5e4"},"notes":[]}','{"charge":{"information":"1","calls":"0"},"left":{"information":"299","calls":"20"},"resets":"2026-12-01","table":"visits","atom":"sha256:d983c27adf9f12ac3e3d07809851bb37d8043970863603b816fc2b6940a480fb","worst":["histogram"]}');
INSERT INTO "answers" VALUES('analyst:ben','sha256:770035a1048590147d1cd49f589121eb094fae256f04a2335a1d7baa434d6cd2','{"columns":{"title":"text","people":"integer"},"rows":[{"title":"nurse","people":69},{"title":"engineer","people":64},{"title":"analyst","people":62}],"stopped":true,"receipt":{"mechanism":"unknown_gaussian","unit":"person","error95":{"people":4},"data_version":"value v1","digest":"sha256:770035a1048590147d1cd49f589121eb094fae256f04a2335a1d7baa434d6cd2"},"notes":["groups below a noisy threshold are absent","groups close to the threshold are there because their noise was high, and so are their counts"]}','{"charge":{"information":"1","calls":"1"},"left":{"information":"298","calls":"19"},"resets":"2026-12-01","table":"visits","atom":"sha256:a6fa468a177a2ca6eb9fa7cf9b483af34ecc6d04dc8d4ede586335a89f123735","worst":["histogram"]}');
INSERT INTO "answers" VALUES('analyst:ben','sha256:703502726498056cf31100083257b8b794b6d779b6728ad6654e79fdb2491f06','{"columns":{"market":"text","shares":"integer"},"rows":[{"market":"emea","shares":148},{"market":"amer","shares":138},{"market":"apac","shares":114}],"stopped":false,"receipt":{"mechanism":"known_gumbel","unit":"person","error95":{"shares":12},"data_version":"value v1","digest":"sha256:703502726498056cf31100083257b8b794b6d779b6728ad6654e79fdb2491f06"},"notes":["at most 3 a person and group are counted"]}','{"charge":{"information":"6","calls":"0"},"left":{"information":"292","calls":"19"},"resets":"2026-12-01","table":"visits","atom":"sha256:0b36fa935da06785b17fb2fe576a2f91d6ff86dd37abb274252d7f7134f29943","worst":["pick 1","count 1 gaussian 36","pick 2","count 2 gaussian 36","pick 3","count 3 gaussian 36"]}');
INSERT INTO "answers" VALUES('release:public','sha256:77b6711290077854799c69c8210cf1c06a88cebcc48638b016d69abf78ce07cc','{"format": "sfumato-release/1", "code": "sfumato 0.1.0", "method": "pcr", "unit": "person", "neighbours": "two tables, of which one has all rows of one more person", "guarantee": {"rho": "5", "delta": "1/1000000", "epsilon": 20.551948814041257, "epsilon_delta": "1/500000", "conversion": "optimal conversion of zCDP (Canonne, Kamath, Steinke 2020), rounded up"}, "parameters": {"unit": "person", "key": ["title"], "filter": null, "limit": 10000, "relative_error": "1/10", "refine": null, "statistics": [{"statistic": "units"}], "statistics_share": "0", "max_keys": null, "levels": 26, "bounds": {}}, "steps": [{"purpose": "selection of keys, and units", "law": "27 exact Gumbel races, then discrete Gaussian counts, deviations from 4,000 down to 0.5333", "rho": "5", "delta": "1/1000000"}], "rules": ["Rows without a person or a key, and rows with NaN where a key or a value is needed, are left out.", "Infinite values are clamped to the bounds as all others are; a NULL value adds nothing.", "A cell of a CSV file that is not of its column''s type is NULL.", "Keys that are longer than 1000 characters, infinite, or beyond the year 9999 are left out with their rows."], "columns": [{"name": "title", "type": "text", "role": "key", "statistic": null, "meaning": "key"}, {"name": "units", "type": "integer", "role": "statistic", "statistic": "units", "meaning": "distinct people"}, {"name": "units_low", "type": "integer", "role": "low", "statistic": "units", "meaning": "lower end of a 95 % interval for what the noise did"}, {"name": "units_high", "type": "integer", "role": "high", "statistic": "units", "meaning": "upper end of it"}, {"name": "units_deviation", "type": "number", "role": "deviation", "statistic": "units", "meaning": "standard deviation of the noise"}], "job": "ads-1", "request": "63b4f3541af2f0f2d197b4c50a58977ef7ab0c9d769d2fe01c3536e283ac4035"}','{"charge":{"information":"40","calls":"1"},"left":{"information":"60","calls":"9"},"resets":null,"table":"","atom":"release:77b6711290077854799c69c8210cf1c06a88cebcc48638b016d69abf78ce07cc","worst":["histogram"]}');
CREATE TABLE atoms (
    atom TEXT PRIMARY KEY,
    nonce TEXT NOT NULL,
    payload TEXT
);
INSERT INTO "atoms" VALUES('sha256:b55eba7e34532d4e01e1916130563ee85036a319fd94c0a110842da43264ddf2','1ca9dc1c9fbc88f109a2d90f0d903e19','{"rows":[[["article-0"],106],[["article-1"],47],[["article-3"],40],[["article-4"],32],[["article-2"],34],[["article-7"],25],[["article-5"],22],[["article-6"],24],[["article-9"],23]],"stopped":true,"complete":false}');
INSERT INTO "atoms" VALUES('sha256:c0a96dc2d2b8c598e92fa777a46b1dbf6a592fc0191fee36ac4a1a8326e78214','26c52288cfaab11bd13576a57a587eaf','{"rows":[[["article-0"],42],[["article-1"],17]],"stopped":true,"complete":false}');
INSERT INTO "atoms" VALUES('sha256:d983c27adf9f12ac3e3d07809851bb37d8043970863603b816fc2b6940a480fb','77c3358e6594f6144985186e295548b7','{"rows":[[["emea"],70],[["apac"],69],[["amer"],64]],"stopped":false,"complete":true}');
INSERT INTO "atoms" VALUES('sha256:a6fa468a177a2ca6eb9fa7cf9b483af34ecc6d04dc8d4ede586335a89f123735','4e42be3e5a776f84eaafe20b7cf83dbd','{"rows":[[["nurse"],69],[["engineer"],64],[["analyst"],62]],"stopped":true,"complete":false}');
INSERT INTO "atoms" VALUES('sha256:0b36fa935da06785b17fb2fe576a2f91d6ff86dd37abb274252d7f7134f29943','089dd4f10b4b1c73b10cf2c9a24466de','{"rows":[[["emea"],148],[["amer"],138],[["apac"],114]],"stopped":false,"complete":true}');
INSERT INTO "atoms" VALUES('release:77b6711290077854799c69c8210cf1c06a88cebcc48638b016d69abf78ce07cc','4c6b57221d616242202e792f4fbe4fb4','{"statement": {"format": "sfumato-release/1", "code": "sfumato 0.1.0", "method": "pcr", "unit": "person", "neighbours": "two tables, of which one has all rows of one more person", "guarantee": {"rho": "5", "delta": "1/1000000", "epsilon": 20.551948814041257, "epsilon_delta": "1/500000", "conversion": "optimal conversion of zCDP (Canonne, Kamath, Steinke 2020), rounded up"}, "parameters": {"unit": "person", "key": ["title"], "filter": null, "limit": 10000, "relative_error": "1/10", "refine": null, "statistics": [{"statistic": "units"}], "statistics_share": "0", "max_keys": null, "levels": 26, "bounds": {}}, "steps": [{"purpose": "selection of keys, and units", "law": "27 exact Gumbel races, then discrete Gaussian counts, deviations from 4,000 down to 0.5333", "rho": "5", "delta": "1/1000000"}], "rules": ["Rows without a person or a key, and rows with NaN where a key or a value is needed, are left out.", "Infinite values are clamped to the bounds as all others are; a NULL value adds nothing.", "A cell of a CSV file that is not of its column''s type is NULL.", "Keys that are longer than 1000 characters, infinite, or beyond the year 9999 are left out with their rows."], "columns": [{"name": "title", "type": "text", "role": "key", "statistic": null, "meaning": "key"}, {"name": "units", "type": "integer", "role": "statistic", "statistic": "units", "meaning": "distinct people"}, {"name": "units_low", "type": "integer", "role": "low", "statistic": "units", "meaning": "lower end of a 95 % interval for what the noise did"}, {"name": "units_high", "type": "integer", "role": "high", "statistic": "units", "meaning": "upper end of it"}, {"name": "units_deviation", "type": "number", "role": "deviation", "statistic": "units", "meaning": "standard deviation of the noise"}], "job": "ads-1", "request": "63b4f3541af2f0f2d197b4c50a58977ef7ab0c9d769d2fe01c3536e283ac4035"}, "table": "UEFSMRUAFV4VcCwVCBUAFQYVBgAAKLUv/SAveQEAAgAAAAgBBQAAAG90aGVyCAAAAGVuZ2luZWVyBwAAAGRlbnRpc3QFAAAAbnVyc2UVABVMFUosFQgVABUGFQYAACi1L/0gJuUAAKACAAAACAEoACIAHgAeAAAAAAAAAAMUAAMYcwEVABVMFUosFQgVABUGFQYAACi1L/0gJuUAAKACAAAACAEiAB4AGgAaAAAAAAAAAAMUAAMYcwEVABVMFUosFQgVABUGFQYAACi1L/0gJuUAAKACAAAACAEuACYAIgAiAAAAAAAAAAMUAAMYcwEVABVMFUwsFQgVABUGFQYAACi1L/0gJu0AAJgCAAAACAHMICew2hgGQABA/z8AAwArBkAQAagDFQIZbDUAGA1kdWNrZGJfc2NoZW1hFQoAFQwlAhgFdGl0bGUlAAAVBCUCGAV1bml0cyUkABUEJQIYCXVuaXRzX2xvdyUkABUEJQIYCnVuaXRzX2hpZ2glJAAVCiUCGA91bml0c19kZXZpYXRpb24AFggZHBlcJgAcFQwZFQAZGAV0aXRsZRUMFggWgAEWkgEmCDwYBW90aGVyGAdkZW50aXN0FgAoBW90aGVyGAdkZW50aXN0EREAGRwVABUAFQIAAAAmABwVBBkVABkYBXVuaXRzFQwWCBZuFmwmmgE8GAgoAAAAAAAAABgIHgAAAAAAAAAWACgIKAAAAAAAAAAYCB4AAAAAAAAAEREAGRwVABUAFQIAAAAmABwVBBkVABkYCXVuaXRzX2xvdxUMFggWbhZsJoYCPBgIIgAAAAAAAAAYCBoAAAAAAAAAFgAoCCIAAAAAAAAAGAgaAAAAAAAAABERABkcFQAVABUCAAAAJgAcFQQZFQAZGAp1bml0c19oaWdoFQwWCBZuFmwm8gI8GAguAAAAAAAAABgIIgAAAAAAAAAWACgILgAAAAAAAAAYCCIAAAAAAAAAEREAGRwVABUAFQIAAAAmABwVChkVABkYD3VuaXRzX2RldmlhdGlvbhUMFggWbhZuJt4DPBgIzCAnsNoYBkAYCAAAAAAAQP8/FgAoCMwgJ7DaGAZAGAgAAAAAAED/PxERFgAAGRwVABUAFQIAAAAWuAQWCCYIFsQEACgoRHVja0RCIHZlcnNpb24gdjIuMC4wIChidWlsZCBkNTRjYmJlM2RmKRlcHAAAHAAAHAAAHAAAHAAAAG4CAABQQVIx"}');
INSERT INTO "atoms" VALUES('sha256:ad275e773fb037e0321f2b8e159fa6f249cb1a999cba7e872d6872f37a412088','d30376c0cfec708d10000e21d037c983',NULL);
CREATE TABLE balances (
    account TEXT NOT NULL,
    period TEXT NOT NULL,
    prices TEXT NOT NULL,
    reserved TEXT NOT NULL,
    spent TEXT NOT NULL,
    granted TEXT NOT NULL,
    PRIMARY KEY (account, period)
);
INSERT INTO "balances" VALUES('analyst:anna','2026-11-01','epsilon_per 1, delta_per 1/1000000','0 0','18 2','7 1');
INSERT INTO "balances" VALUES('organisation:acme','','epsilon_per 1, delta_per 1/1000000','1 0','26 3','0 0');
INSERT INTO "balances" VALUES('table:visits','','epsilon_per 1, delta_per 1/1000000','1 0','26 3','0 0');
INSERT INTO "balances" VALUES('analyst:ben','2026-11-01','epsilon_per 1, delta_per 1/1000000','1 0','8 1','0 0');
INSERT INTO "balances" VALUES('release:public','','epsilon_per 1, delta_per 1/1000000','0 0','40 1','0 0');
CREATE TABLE calls (
    account TEXT NOT NULL,
    key TEXT NOT NULL,
    number BIGINT NOT NULL,
    body TEXT NOT NULL,
    digest TEXT NOT NULL,
    free BIGINT NOT NULL,
    PRIMARY KEY (account, key)
);
INSERT INTO "calls" VALUES('analyst:ben','4e8df98120108d124d4224f0fa7f1e90c948d6a8df1abe93d08ed067842c768e',1,'5ae520d3198704e5afa9be190a37928a1134cadb46f77eab9c47cd48520286f4','sha256:703502726498056cf31100083257b8b794b6d779b6728ad6654e79fdb2491f06',0);
CREATE TABLE cells (
    place TEXT NOT NULL,
    number BIGINT NOT NULL,
    stored BIGINT NOT NULL,
    domain TEXT NOT NULL,
    counts TEXT NOT NULL,
    PRIMARY KEY (place, number, stored)
);
INSERT INTO "cells" VALUES('b37cd8690183976831ba249c9201af457eed3decea86ce0c3955a9f55b9e45eb',1,40,'201b1f09623811c96c1cb9760f7e8b3e811b0a42cbfc29f592f04df1bf8e0af0','[3,3,2]');
INSERT INTO "cells" VALUES('17c2a7532ad7857792b4731c01fbb03e66fa2cc9ef8daa69e2d9f35f520b7990',1,40,'201b1f09623811c96c1cb9760f7e8b3e811b0a42cbfc29f592f04df1bf8e0af0','[4,3,3]');
INSERT INTO "cells" VALUES('e7772099575c7f0640331c153d21580d4c1bccd78d9ca1eef8ee042e812e31d7',1,40,'201b1f09623811c96c1cb9760f7e8b3e811b0a42cbfc29f592f04df1bf8e0af0','[4,2,2]');
INSERT INTO "cells" VALUES('e918c6339c002ee1c51b455bf78de9a9c179f962ec5ed06728ea265fdd7a02dd',1,40,'201b1f09623811c96c1cb9760f7e8b3e811b0a42cbfc29f592f04df1bf8e0af0','[-1,0,1]');
INSERT INTO "cells" VALUES('98e28f1cb8f9e969f1f925ef7e22381162f2fbd22a1483dd73a683631ae42d82',1,40,'201b1f09623811c96c1cb9760f7e8b3e811b0a42cbfc29f592f04df1bf8e0af0','[1,-2,1]');
INSERT INTO "cells" VALUES('d800b4fa2f728ed1342c1b8075319c710480535908e4e6c315070e04b7d2413f',1,40,'201b1f09623811c96c1cb9760f7e8b3e811b0a42cbfc29f592f04df1bf8e0af0','[2,2,-1]');
INSERT INTO "cells" VALUES('acda9a81c358f8d35d9677860b95d4d4e204108a9300ca144609e4c9c2c0485a',1,40,'201b1f09623811c96c1cb9760f7e8b3e811b0a42cbfc29f592f04df1bf8e0af0','[1,3,2]');
INSERT INTO "cells" VALUES('5f49548ea0b0eb9e417ad806424689a4bfec22e78c2e68e81e6638e84b50593f',1,40,'201b1f09623811c96c1cb9760f7e8b3e811b0a42cbfc29f592f04df1bf8e0af0','[1,-3,3]');
INSERT INTO "cells" VALUES('779cff8bc74096c2fa03bfaae2e5b22937a12d5be5519a3c544a79f285da5925',1,40,'201b1f09623811c96c1cb9760f7e8b3e811b0a42cbfc29f592f04df1bf8e0af0','[0,3,-1]');
INSERT INTO "cells" VALUES('e892fa5b651a38da30b0c29dbe100b3671a6165e9a87e4c3fe8f86f8b6e97339',1,40,'201b1f09623811c96c1cb9760f7e8b3e811b0a42cbfc29f592f04df1bf8e0af0','[1,-1,0]');
INSERT INTO "cells" VALUES('711d89257c932ada2e83bffbd3cb7796c1629b911090c89c5ac2b4fe334871ea',1,42,'055539df4a0b804c58caf46c0cd2941af10d64c1395ddd8e50b5f55d945841e6','[7]');
INSERT INTO "cells" VALUES('30f96d04c2dd6c4cbc256ce6539dcc8593816849cbccf37b5a4fa2c620744626',1,42,'055539df4a0b804c58caf46c0cd2941af10d64c1395ddd8e50b5f55d945841e6','[1]');
INSERT INTO "cells" VALUES('062542cde7257d9194da41b3aa86dedf6938e6a4173df5fdc4815dfee30280a5',1,42,'055539df4a0b804c58caf46c0cd2941af10d64c1395ddd8e50b5f55d945841e6','[-3]');
INSERT INTO "cells" VALUES('5c0eaefad90b50c189bec9a9999ac8d782fc22cacb7745bc62a524ff5b3a8440',1,44,'055539df4a0b804c58caf46c0cd2941af10d64c1395ddd8e50b5f55d945841e6','[0]');
INSERT INTO "cells" VALUES('1ff4eb2b3ee3c17609cd03ed1c96856ebdd1132ba3eac935918de07ce864c8e0',1,44,'055539df4a0b804c58caf46c0cd2941af10d64c1395ddd8e50b5f55d945841e6','[3]');
INSERT INTO "cells" VALUES('442c8c971022079c52c7c797c8fb6a384ffa35958b5e9e980e90e00bc769f76b',1,46,'201b1f09623811c96c1cb9760f7e8b3e811b0a42cbfc29f592f04df1bf8e0af0','[0,-3,1]');
INSERT INTO "cells" VALUES('aaa785a4a9346263247cc783c03262a343c389efbcf7c9aca39fa6d66234bdc2',1,46,'201b1f09623811c96c1cb9760f7e8b3e811b0a42cbfc29f592f04df1bf8e0af0','[2,2,0]');
INSERT INTO "cells" VALUES('1c0b562217a2da1841b5e6342dcab26b63020a6e609c408e7ad5ae65d05eec17',1,46,'201b1f09623811c96c1cb9760f7e8b3e811b0a42cbfc29f592f04df1bf8e0af0','[3,0,0]');
INSERT INTO "cells" VALUES('b1f743ed88eda0bc0d5879436c190971c4f70b8e7328e6390e554cc50e1a729f',1,46,'201b1f09623811c96c1cb9760f7e8b3e811b0a42cbfc29f592f04df1bf8e0af0','[-2,0,1]');
INSERT INTO "cells" VALUES('98c5ede419208c88abd7095661e6f10cc5ee3b40a3922b628d88da565e8c2576',1,48,'972483de024fc1f76a3241007e69dce1bf781f07d6232e3079326a8bdb08a533','[2,16,18]');
CREATE TABLE domains (
    digest TEXT PRIMARY KEY,
    listed TEXT NOT NULL
);
INSERT INTO "domains" VALUES('201b1f09623811c96c1cb9760f7e8b3e811b0a42cbfc29f592f04df1bf8e0af0','["\"dentist\"","\"engineer\"","\"nurse\""]');
INSERT INTO "domains" VALUES('055539df4a0b804c58caf46c0cd2941af10d64c1395ddd8e50b5f55d945841e6','[""]');
INSERT INTO "domains" VALUES('972483de024fc1f76a3241007e69dce1bf781f07d6232e3079326a8bdb08a533','["\"cobol\"","\"rust\"","\"sql\""]');
CREATE TABLE holds (
    account TEXT NOT NULL,
    digest TEXT NOT NULL,
    at TEXT NOT NULL,
    analyst TEXT NOT NULL,
    atom TEXT NOT NULL,
    epoch TEXT NOT NULL,
    version TEXT NOT NULL,
    request TEXT NOT NULL,
    parts TEXT NOT NULL,
    PRIMARY KEY (account, digest)
);
INSERT INTO "holds" VALUES('analyst:ben','sha256:595e6b4c4c98f249fd62ae071f0f1e29fcecd0ce8669d749463ccad7f1316969','2026-11-15T12:00:00.000000+00:00','ben','sha256:ad275e773fb037e0321f2b8e159fa6f249cb1a999cba7e872d6872f37a412088','c9132854','value v1','{"type": "total", "table": "visits", "measure": "minutes", "where": {"market": ["apac", "emea"]}}','[["analyst:ben", "2026-11-01", {"information": "1", "calls": "0"}], ["organisation:acme", "", {"information": "1", "calls": "0"}], ["table:visits", "", {"information": "1", "calls": "0"}]]');
CREATE TABLE journal (
    sequence BIGINT PRIMARY KEY,
    at TEXT NOT NULL,
    kind TEXT NOT NULL,
    account TEXT NOT NULL,
    period TEXT NOT NULL,
    analyst TEXT NOT NULL,
    digest TEXT NOT NULL,
    reserved TEXT NOT NULL,
    spent TEXT NOT NULL,
    granted TEXT NOT NULL,
    note TEXT NOT NULL,
    hash TEXT NOT NULL
);
INSERT INTO "journal" VALUES(1,'2026-11-15T12:00:00.000000+00:00','reserve','analyst:anna','2026-11-01','anna','sha256:1a56c4ec5a3661c213f2aa8782d073c26d79c18d0d03cd4482ea2e9540dadae6','7 1','0 0','0 0','','d441c2887d74dea9a62ad0650c4e3b57b9097d76ed5c25b4089572c70c404154');
INSERT INTO "journal" VALUES(2,'2026-11-15T12:00:00.000000+00:00','reserve','organisation:acme','','anna','sha256:1a56c4ec5a3661c213f2aa8782d073c26d79c18d0d03cd4482ea2e9540dadae6','7 1','0 0','0 0','','0b06b996f2e5c2ae681f52f018cde2353be3263c2eec83a4d61a7de40f180c5d');
INSERT INTO "journal" VALUES(3,'2026-11-15T12:00:00.000000+00:00','reserve','table:visits','','anna','sha256:1a56c4ec5a3661c213f2aa8782d073c26d79c18d0d03cd4482ea2e9540dadae6','7 1','0 0','0 0','','86e0ecef226248a15180effb38d856140bf9e565dad6093d034b5b52f548c086');
INSERT INTO "journal" VALUES(4,'2026-11-15T12:00:00.000000+00:00','settle','analyst:anna','2026-11-01','anna','sha256:1a56c4ec5a3661c213f2aa8782d073c26d79c18d0d03cd4482ea2e9540dadae6','-7 -1','7 1','0 0','{"atom": "sha256:b55eba7e34532d4e01e1916130563ee85036a319fd94c0a110842da43264ddf2", "answer": "b34e374d1029f157e766f8c8106fb82c2876c5834e2c570b335f10ea4da24291", "payload": "5615b1d63fc7e9d72ebf97a2169d7c065eb5e1323689944bc00173a4b8e59843", "steps": ["call", "count 1 gaussian 4", "count 2 gaussian 4", "count 3 gaussian 4", "cutoff", "pick 1", "pick 2", "pick 3"], "receipt": "6f9bde421e2d67de7bb0e2172cfd95e0701ead840561177b040825122ea7f079"}','41a278bf305f83d1f7467184df6badd875fc09732ca2c0e45c8046d0a4d74883');
INSERT INTO "journal" VALUES(5,'2026-11-15T12:00:00.000000+00:00','settle','organisation:acme','','anna','sha256:1a56c4ec5a3661c213f2aa8782d073c26d79c18d0d03cd4482ea2e9540dadae6','-7 -1','7 1','0 0','{"atom": "sha256:b55eba7e34532d4e01e1916130563ee85036a319fd94c0a110842da43264ddf2", "answer": "b34e374d1029f157e766f8c8106fb82c2876c5834e2c570b335f10ea4da24291", "payload": "5615b1d63fc7e9d72ebf97a2169d7c065eb5e1323689944bc00173a4b8e59843", "steps": ["call", "count 1 gaussian 4", "count 2 gaussian 4", "count 3 gaussian 4", "cutoff", "pick 1", "pick 2", "pick 3"]}','3a9a07d20783d56a6492ef6ed1f106a1a1f6682369e925847bcb31b52a57c94f');
INSERT INTO "journal" VALUES(6,'2026-11-15T12:00:00.000000+00:00','settle','table:visits','','anna','sha256:1a56c4ec5a3661c213f2aa8782d073c26d79c18d0d03cd4482ea2e9540dadae6','-7 -1','7 1','0 0','{"atom": "sha256:b55eba7e34532d4e01e1916130563ee85036a319fd94c0a110842da43264ddf2", "answer": "b34e374d1029f157e766f8c8106fb82c2876c5834e2c570b335f10ea4da24291", "payload": "5615b1d63fc7e9d72ebf97a2169d7c065eb5e1323689944bc00173a4b8e59843", "steps": ["call", "count 1 gaussian 4", "count 2 gaussian 4", "count 3 gaussian 4", "cutoff", "pick 1", "pick 2", "pick 3"]}','e6cdcfc8b37ea933e56d6760f7478937cf66e5d896ef71b2c7d68926d222feaa');
INSERT INTO "journal" VALUES(7,'2026-11-15T12:00:00.000000+00:00','reserve','analyst:anna','2026-11-01','anna','sha256:930c28ad272b01485b0daa0fccf856437201259827d88d48a806eb68a2fc5ef9','6 0','0 0','0 0','','1c3470d16b847ad0ec224b532e90dc54bc1c006dd375fedca8af84962cd6eceb');
INSERT INTO "journal" VALUES(8,'2026-11-15T12:00:00.000000+00:00','reserve','organisation:acme','','anna','sha256:930c28ad272b01485b0daa0fccf856437201259827d88d48a806eb68a2fc5ef9','6 0','0 0','0 0','','1b5c35c82830d3f0451cb5e198b96f9b64a365b58d347d1581a94fcc65905b8f');
INSERT INTO "journal" VALUES(9,'2026-11-15T12:00:00.000000+00:00','reserve','table:visits','','anna','sha256:930c28ad272b01485b0daa0fccf856437201259827d88d48a806eb68a2fc5ef9','6 0','0 0','0 0','','45fff43a89fb7b9249431d3e4c3998b5618a4212830eb610797736a1594cc15d');
INSERT INTO "journal" VALUES(10,'2026-11-15T12:00:00.000000+00:00','settle','analyst:anna','2026-11-01','anna','sha256:930c28ad272b01485b0daa0fccf856437201259827d88d48a806eb68a2fc5ef9','-6 0','6 0','0 0','{"atom": "sha256:b55eba7e34532d4e01e1916130563ee85036a319fd94c0a110842da43264ddf2", "answer": "382c3687295d38bcab9c7bf0483e56bb1065af7a1e8f8845264a4ef41600dbb4", "payload": "5615b1d63fc7e9d72ebf97a2169d7c065eb5e1323689944bc00173a4b8e59843", "steps": ["count 4 gaussian 4", "count 5 gaussian 4", "count 6 gaussian 4", "pick 4", "pick 5", "pick 6"], "receipt": "f15141e5cac931f916fa6a87cff7cfc2b3cb2b7f4b155114530d47fc099bcb1b"}','f126cd6838686e65fa2e204b52a49a16970755b752ea60a5e5705beaeac0a436');
INSERT INTO "journal" VALUES(11,'2026-11-15T12:00:00.000000+00:00','settle','organisation:acme','','anna','sha256:930c28ad272b01485b0daa0fccf856437201259827d88d48a806eb68a2fc5ef9','-6 0','6 0','0 0','{"atom": "sha256:b55eba7e34532d4e01e1916130563ee85036a319fd94c0a110842da43264ddf2", "answer": "382c3687295d38bcab9c7bf0483e56bb1065af7a1e8f8845264a4ef41600dbb4", "payload": "5615b1d63fc7e9d72ebf97a2169d7c065eb5e1323689944bc00173a4b8e59843", "steps": ["count 4 gaussian 4", "count 5 gaussian 4", "count 6 gaussian 4", "pick 4", "pick 5", "pick 6"]}','8f7b520fb0db890d5ff264f96e5fa7b40f5d3470236bece090953c2910d5948d');
INSERT INTO "journal" VALUES(12,'2026-11-15T12:00:00.000000+00:00','settle','table:visits','','anna','sha256:930c28ad272b01485b0daa0fccf856437201259827d88d48a806eb68a2fc5ef9','-6 0','6 0','0 0','{"atom": "sha256:b55eba7e34532d4e01e1916130563ee85036a319fd94c0a110842da43264ddf2", "answer": "382c3687295d38bcab9c7bf0483e56bb1065af7a1e8f8845264a4ef41600dbb4", "payload": "5615b1d63fc7e9d72ebf97a2169d7c065eb5e1323689944bc00173a4b8e59843", "steps": ["count 4 gaussian 4", "count 5 gaussian 4", "count 6 gaussian 4", "pick 4", "pick 5", "pick 6"]}','2c8d4720728a10c42e66070d89daee97d06c361d54804592ab9ad08ca94850c9');
INSERT INTO "journal" VALUES(13,'2026-11-15T12:00:00.000000+00:00','reserve','analyst:anna','2026-11-01','anna','sha256:3df5f966c2abcbb277a49b9406541aad96acf1397871541b6c0f9e98bc871dc0','5 1','0 0','0 0','','b16c2d38cfced7d2e30a0065da61eab65fdc9ae061ecc3d7c1e23438e6be30e1');
INSERT INTO "journal" VALUES(14,'2026-11-15T12:00:00.000000+00:00','reserve','organisation:acme','','anna','sha256:3df5f966c2abcbb277a49b9406541aad96acf1397871541b6c0f9e98bc871dc0','5 1','0 0','0 0','','64d04a89241967115b1ceb3147d7313b335ba34777b6e0c865043704648e46cf');
INSERT INTO "journal" VALUES(15,'2026-11-15T12:00:00.000000+00:00','reserve','table:visits','','anna','sha256:3df5f966c2abcbb277a49b9406541aad96acf1397871541b6c0f9e98bc871dc0','5 1','0 0','0 0','','cd7201bad622eec54132f736e093d666175f396d8b1d27f940d98fe82ddf8e8c');
INSERT INTO "journal" VALUES(16,'2026-11-15T12:00:00.000000+00:00','settle','analyst:anna','2026-11-01','anna','sha256:3df5f966c2abcbb277a49b9406541aad96acf1397871541b6c0f9e98bc871dc0','-5 -1','4 1','0 0','{"atom": "sha256:c0a96dc2d2b8c598e92fa777a46b1dbf6a592fc0191fee36ac4a1a8326e78214", "answer": "aa950ce3aa6fcfdb6a92ed4eac7aa477f7ab83678361eb302f60d929eaffaf76", "payload": "2f3d77384b60a88020fe483a2c4736a5be6b0e30b913ada37f6de87fcd24f3f0", "steps": ["call", "cutoff", "pick 1", "pick 2", "stop 3"], "receipt": "002bbde303050ff4d534712d93abc82d29edbd32655be1fff5a417975440509a"}','3f6d1e633cebef587040f176f7bd5ce05e294a5cbe612ab9d505286dce002ab4');
INSERT INTO "journal" VALUES(17,'2026-11-15T12:00:00.000000+00:00','settle','organisation:acme','','anna','sha256:3df5f966c2abcbb277a49b9406541aad96acf1397871541b6c0f9e98bc871dc0','-5 -1','5 1','0 0','{"atom": "sha256:c0a96dc2d2b8c598e92fa777a46b1dbf6a592fc0191fee36ac4a1a8326e78214", "answer": "aa950ce3aa6fcfdb6a92ed4eac7aa477f7ab83678361eb302f60d929eaffaf76", "payload": "2f3d77384b60a88020fe483a2c4736a5be6b0e30b913ada37f6de87fcd24f3f0", "steps": ["call", "cutoff", "pick 1", "pick 2", "pick 3", "pick 4"]}','157d1d35587509f6663f37d2f39651d8acbfa42288b67d0bf02d9b9813ce0f58');
INSERT INTO "journal" VALUES(18,'2026-11-15T12:00:00.000000+00:00','settle','table:visits','','anna','sha256:3df5f966c2abcbb277a49b9406541aad96acf1397871541b6c0f9e98bc871dc0','-5 -1','5 1','0 0','{"atom": "sha256:c0a96dc2d2b8c598e92fa777a46b1dbf6a592fc0191fee36ac4a1a8326e78214", "answer": "aa950ce3aa6fcfdb6a92ed4eac7aa477f7ab83678361eb302f60d929eaffaf76", "payload": "2f3d77384b60a88020fe483a2c4736a5be6b0e30b913ada37f6de87fcd24f3f0", "steps": ["call", "cutoff", "pick 1", "pick 2", "pick 3", "pick 4"]}','6d7c5e0ed9f59e6f77d969f3f03448923ad4b84187d2536491afdb34dda5de3d');
INSERT INTO "journal" VALUES(19,'2026-11-15T12:00:00.000000+00:00','reserve','analyst:anna','2026-11-01','anna','sha256:25060c249c1b3675cbb08df78a13c4ae1f20157afab96eeab2c3fab1f76be5e4','1 0','0 0','0 0','','a60d82ff9dc5e6abe7586468795824643900009510d41de8b5406acb3758178d');
INSERT INTO "journal" VALUES(20,'2026-11-15T12:00:00.000000+00:00','reserve','organisation:acme','','anna','sha256:25060c249c1b3675cbb08df78a13c4ae1f20157afab96eeab2c3fab1f76be5e4','1 0','0 0','0 0','','e62f92551e7c45eb6b47a5da3568e08afbc129aed878b4d2509dbe375edeba79');
INSERT INTO "journal" VALUES(21,'2026-11-15T12:00:00.000000+00:00','reserve','table:visits','','anna','sha256:25060c249c1b3675cbb08df78a13c4ae1f20157afab96eeab2c3fab1f76be5e4','1 0','0 0','0 0','','8ed5f71c9255bcd45e32bc133396f2e191c3c24a0c5d06a832529b540b3acf69');
INSERT INTO "journal" VALUES(22,'2026-11-15T12:00:00.000000+00:00','settle','analyst:anna','2026-11-01','anna','sha256:25060c249c1b3675cbb08df78a13c4ae1f20157afab96eeab2c3fab1f76be5e4','-1 0','1 0','0 0','{"atom": "sha256:d983c27adf9f12ac3e3d07809851bb37d8043970863603b816fc2b6940a480fb", "answer": "1ddd50a13e1161ec24ac8f321d22e82a49e36e1e479a52e9b002b703b42630b0", "payload": "254d6dc8abd2ac378d69eed72e8099f535bb2cff2f3396cf1276d428f2253dd0", "steps": ["histogram"], "receipt": "6bc1fd4b36fa8468b5f6fc9b9715e6abe8558ad5e2f4cf91812815cbfe70eb06"}','be017ad0bcdd13320de367cc0272333bb453f3ed7c8c50ec718fb0bfc3bc751c');
INSERT INTO "journal" VALUES(23,'2026-11-15T12:00:00.000000+00:00','settle','organisation:acme','','anna','sha256:25060c249c1b3675cbb08df78a13c4ae1f20157afab96eeab2c3fab1f76be5e4','-1 0','1 0','0 0','{"atom": "sha256:d983c27adf9f12ac3e3d07809851bb37d8043970863603b816fc2b6940a480fb", "answer": "1ddd50a13e1161ec24ac8f321d22e82a49e36e1e479a52e9b002b703b42630b0", "payload": "254d6dc8abd2ac378d69eed72e8099f535bb2cff2f3396cf1276d428f2253dd0", "steps": ["histogram"]}','3ac15604079a32cf43ec48f12e19fa00ed9b45bb3e9d01524c0e197e1e232031');
INSERT INTO "journal" VALUES(24,'2026-11-15T12:00:00.000000+00:00','settle','table:visits','','anna','sha256:25060c249c1b3675cbb08df78a13c4ae1f20157afab96eeab2c3fab1f76be5e4','-1 0','1 0','0 0','{"atom": "sha256:d983c27adf9f12ac3e3d07809851bb37d8043970863603b816fc2b6940a480fb", "answer": "1ddd50a13e1161ec24ac8f321d22e82a49e36e1e479a52e9b002b703b42630b0", "payload": "254d6dc8abd2ac378d69eed72e8099f535bb2cff2f3396cf1276d428f2253dd0", "steps": ["histogram"]}','a446e49bbadad33dc83228e104e9e780796ccb7157a69bd075e667ad936785a2');
INSERT INTO "journal" VALUES(25,'2026-11-15T12:00:00.000000+00:00','reserve','analyst:ben','2026-11-01','ben','sha256:25060c249c1b3675cbb08df78a13c4ae1f20157afab96eeab2c3fab1f76be5e4','1 0','0 0','0 0','','2dddc4ff78de7c2dd54928536a697b35e2ef69fde6589983c10bf0427a6f7a1e');
INSERT INTO "journal" VALUES(26,'2026-11-15T12:00:00.000000+00:00','settle','analyst:ben','2026-11-01','ben','sha256:25060c249c1b3675cbb08df78a13c4ae1f20157afab96eeab2c3fab1f76be5e4','-1 0','1 0','0 0','{"atom": "sha256:d983c27adf9f12ac3e3d07809851bb37d8043970863603b816fc2b6940a480fb", "answer": "1ddd50a13e1161ec24ac8f321d22e82a49e36e1e479a52e9b002b703b42630b0", "payload": "254d6dc8abd2ac378d69eed72e8099f535bb2cff2f3396cf1276d428f2253dd0", "steps": ["histogram"], "receipt": "cf9daacddd4480f269a15df5b3b842dd6a09d670d04702e5e3085267ac507d3c"}','3e09f521b6c21e20470ea45ed4cb1ce801accfd5a370e3fd992efe9d4e2e2686');
INSERT INTO "journal" VALUES(27,'2026-11-15T12:00:00.000000+00:00','reserve','analyst:ben','2026-11-01','ben','sha256:770035a1048590147d1cd49f589121eb094fae256f04a2335a1d7baa434d6cd2','1 1','0 0','0 0','','f510416f48560899866ff50b4126a57de6156a7c043a1c75c072ed4fd38cb143');
INSERT INTO "journal" VALUES(28,'2026-11-15T12:00:00.000000+00:00','reserve','organisation:acme','','ben','sha256:770035a1048590147d1cd49f589121eb094fae256f04a2335a1d7baa434d6cd2','1 1','0 0','0 0','','2ec7be2bdd13b845f03d9c113544f1b1707cf785b8a7bf9ec1ebefeb75de5b10');
INSERT INTO "journal" VALUES(29,'2026-11-15T12:00:00.000000+00:00','reserve','table:visits','','ben','sha256:770035a1048590147d1cd49f589121eb094fae256f04a2335a1d7baa434d6cd2','1 1','0 0','0 0','','800dd244271dca32af7042c131b14a4120f30c13353bcdb9755913dd82c981d2');
INSERT INTO "journal" VALUES(30,'2026-11-15T12:00:00.000000+00:00','settle','analyst:ben','2026-11-01','ben','sha256:770035a1048590147d1cd49f589121eb094fae256f04a2335a1d7baa434d6cd2','-1 -1','1 1','0 0','{"atom": "sha256:a6fa468a177a2ca6eb9fa7cf9b483af34ecc6d04dc8d4ede586335a89f123735", "answer": "b38f640534450c05d8dbc464cd6ab84b4bc64ae2fa31f4ce0ef6590bf929a3f4", "payload": "b3d5fb43381af689a0fc872f31c3ffef53af7bb65c5be7f2b6363171cad7de0c", "steps": ["histogram"], "receipt": "e10c8830aee0edc5bd9bcf9cdbd97bf6123e76c44d108d173ec0879bc76e4489"}','af4e7158529b07c5bae98dc55900ede8cb44a267727b0bddd1e55df5d66b317d');
INSERT INTO "journal" VALUES(31,'2026-11-15T12:00:00.000000+00:00','settle','organisation:acme','','ben','sha256:770035a1048590147d1cd49f589121eb094fae256f04a2335a1d7baa434d6cd2','-1 -1','1 1','0 0','{"atom": "sha256:a6fa468a177a2ca6eb9fa7cf9b483af34ecc6d04dc8d4ede586335a89f123735", "answer": "b38f640534450c05d8dbc464cd6ab84b4bc64ae2fa31f4ce0ef6590bf929a3f4", "payload": "b3d5fb43381af689a0fc872f31c3ffef53af7bb65c5be7f2b6363171cad7de0c", "steps": ["histogram"]}','f8d27d66e2716858c42b7ae6a7ea2640942b767ac09941db587ed8234e087166');
INSERT INTO "journal" VALUES(32,'2026-11-15T12:00:00.000000+00:00','settle','table:visits','','ben','sha256:770035a1048590147d1cd49f589121eb094fae256f04a2335a1d7baa434d6cd2','-1 -1','1 1','0 0','{"atom": "sha256:a6fa468a177a2ca6eb9fa7cf9b483af34ecc6d04dc8d4ede586335a89f123735", "answer": "b38f640534450c05d8dbc464cd6ab84b4bc64ae2fa31f4ce0ef6590bf929a3f4", "payload": "b3d5fb43381af689a0fc872f31c3ffef53af7bb65c5be7f2b6363171cad7de0c", "steps": ["histogram"]}','972537673a896e84ae25e9b9c343979d506819db7b80bfc9fa16ea5de99c687b');
INSERT INTO "journal" VALUES(33,'2026-11-15T12:00:00.000000+00:00','reserve','analyst:ben','2026-11-01','ben','sha256:703502726498056cf31100083257b8b794b6d779b6728ad6654e79fdb2491f06','6 0','0 0','0 0','','263f4a679b661d1681fc5e25bac37fb1f6f5f25ae3e8b8b4b8ee4a73045a4361');
INSERT INTO "journal" VALUES(34,'2026-11-15T12:00:00.000000+00:00','reserve','organisation:acme','','ben','sha256:703502726498056cf31100083257b8b794b6d779b6728ad6654e79fdb2491f06','6 0','0 0','0 0','','8a511121862700eb4e5c8e146dc8811d5ee88c11aa3959bd966895ae408df7b6');
INSERT INTO "journal" VALUES(35,'2026-11-15T12:00:00.000000+00:00','reserve','table:visits','','ben','sha256:703502726498056cf31100083257b8b794b6d779b6728ad6654e79fdb2491f06','6 0','0 0','0 0','','b6fd0b313d4c316a5ede8f975076dc0a408bbdebbedc09ef7524047898e9ba5d');
INSERT INTO "journal" VALUES(36,'2026-11-15T12:00:00.000000+00:00','settle','analyst:ben','2026-11-01','ben','sha256:703502726498056cf31100083257b8b794b6d779b6728ad6654e79fdb2491f06','-6 0','6 0','0 0','{"atom": "sha256:0b36fa935da06785b17fb2fe576a2f91d6ff86dd37abb274252d7f7134f29943", "answer": "4baa04d8be65928b95074cbbb6c9c325ec59beb7e85744d0945684a98ea1d229", "payload": "bdf1a1f3a611eb266f006e0e718ec897e8447053e72530b07e414da55fce7af3", "steps": ["count 1 gaussian 36", "count 2 gaussian 36", "count 3 gaussian 36", "pick 1", "pick 2", "pick 3"], "receipt": "6ff89f120a548c2002761f86fae95902b0e8ad1bfb5f0f722a8614d282b140f3"}','47cd922066021b02e851f0d65b05c175703e59d1635e35c1047ebec0e317fcf1');
INSERT INTO "journal" VALUES(37,'2026-11-15T12:00:00.000000+00:00','settle','organisation:acme','','ben','sha256:703502726498056cf31100083257b8b794b6d779b6728ad6654e79fdb2491f06','-6 0','6 0','0 0','{"atom": "sha256:0b36fa935da06785b17fb2fe576a2f91d6ff86dd37abb274252d7f7134f29943", "answer": "4baa04d8be65928b95074cbbb6c9c325ec59beb7e85744d0945684a98ea1d229", "payload": "bdf1a1f3a611eb266f006e0e718ec897e8447053e72530b07e414da55fce7af3", "steps": ["count 1 gaussian 36", "count 2 gaussian 36", "count 3 gaussian 36", "pick 1", "pick 2", "pick 3"]}','437a2e06a38d6d7aca5d57301787ac5c0ee4bfc9314cd1320733459b5fa97840');
INSERT INTO "journal" VALUES(38,'2026-11-15T12:00:00.000000+00:00','settle','table:visits','','ben','sha256:703502726498056cf31100083257b8b794b6d779b6728ad6654e79fdb2491f06','-6 0','6 0','0 0','{"atom": "sha256:0b36fa935da06785b17fb2fe576a2f91d6ff86dd37abb274252d7f7134f29943", "answer": "4baa04d8be65928b95074cbbb6c9c325ec59beb7e85744d0945684a98ea1d229", "payload": "bdf1a1f3a611eb266f006e0e718ec897e8447053e72530b07e414da55fce7af3", "steps": ["count 1 gaussian 36", "count 2 gaussian 36", "count 3 gaussian 36", "pick 1", "pick 2", "pick 3"]}','42a8989e5094a40404d44c02c3d9c87122ed0dcb54eb133f54a68b7c1d730fea');
INSERT INTO "journal" VALUES(39,'2026-11-15T12:00:00.000000+00:00','seal','report:ads','','','','0 0','0 0','0 0','{"seals": 10, "sha256": "e28648a569cdc588ba57d28b30ae0b9b1d7307af31c30851c0a8c518ca3dcf6d"}','58844e0a7e9401a8f32336548b2c4b15e36eb58a6da3d57db837903cfd54026d');
INSERT INTO "journal" VALUES(40,'2026-11-15T12:00:00.000000+00:00','seal','report:ads','','','','0 0','0 0','0 0','{"cells": 30, "sha256": "64f46e6e96d8e6d7f6e2b17a086e5a5c4858e86f53fcc5886d899ef3214c8676"}','c7262026cb95d1ae82723ba21c976eec15e7c58b28b883cca7515f2bb7dad9d9');
INSERT INTO "journal" VALUES(41,'2026-11-15T12:00:00.000000+00:00','seal','report:ads','','','','0 0','0 0','0 0','{"seals": 3, "sha256": "97f0d4737ccd0a60a36d0e08ef365c65d232e1286b39aad37762b69663ec470d"}','f1d4c9ee661d3a139d844ef43f006602e2a4157efacf1e568401b5589d6f754a');
INSERT INTO "journal" VALUES(42,'2026-11-15T12:00:00.000000+00:00','seal','report:ads','','','','0 0','0 0','0 0','{"cells": 3, "sha256": "c8914450e66a1c2b56644d3c114214106a5d10f2b88976348d3a1213634d1018"}','205b56c9628c02bf6e73ae133f5787597378dc65a7bc420477c42a52e8a1f0e5');
INSERT INTO "journal" VALUES(43,'2026-11-15T12:00:00.000000+00:00','seal','report:ads','','','','0 0','0 0','0 0','{"seals": 2, "sha256": "1ef752ef404adab235aea7c4064468b0aed1b283843a3281dc6b6ce50e9a88ce"}','35384920231646ab8f5ff4452d736ee146245a8de1e1715a8a9125b154708569');
INSERT INTO "journal" VALUES(44,'2026-11-15T12:00:00.000000+00:00','seal','report:ads','','','','0 0','0 0','0 0','{"cells": 2, "sha256": "2bd16457dd14de6ab5ffc2d261f26e1bd79e823818e2f0aa4da462911cafecdf"}','22ba9efb8a06a5150c92a742982dfc82f7add08af7416a5a53655cb37210a7d9');
INSERT INTO "journal" VALUES(45,'2026-11-15T12:00:00.000000+00:00','seal','report:ads','','','','0 0','0 0','0 0','{"seals": 4, "sha256": "8952f1e70f5f047277850f32a40aa0c65916c099a4292aebab6d8407bee26f9c"}','490e80e4d29b9187eb1c4c6018a124f1d342cab03bad40e6855f291baeb24264');
INSERT INTO "journal" VALUES(46,'2026-11-15T12:00:00.000000+00:00','seal','report:ads','','','','0 0','0 0','0 0','{"cells": 12, "sha256": "b80edb774b1fadb00878d9ba8bb621d7abfb82d6495052e9b0284d528b18f15c"}','94ec21b9cd9b998e04e9269658d834100d7bf2ee7ca58aab36ec8a87d9c4ab4f');
INSERT INTO "journal" VALUES(47,'2026-11-15T12:00:00.000000+00:00','seal','report:ads','','','','0 0','0 0','0 0','{"seals": 1, "sha256": "a803c6301c07e4bafdb1fa93b850ce9406b2d4b1d4291b16a4039d645e6722a7"}','48915d3feab9c61c25a5c3f82ebe6e22294e44fe6dce8e5f6577fd3eb84067af');
INSERT INTO "journal" VALUES(48,'2026-11-15T12:00:00.000000+00:00','seal','report:ads','','','','0 0','0 0','0 0','{"cells": 3, "sha256": "b93ecf49c7cea749e046f3936bd6d5be0657c42e59d74ed1cd801e0b8ef08b72"}','0b2a0e32138da72e635368c5cfb0bb4e2e1d0f99c445f2cea1d9a06f1c2daebe');
INSERT INTO "journal" VALUES(49,'2026-11-15T12:00:00.000000+00:00','grant','analyst:anna','2026-11-01','anna','','0 0','0 0','7 1','a golden reason','2a63b8850111a3ba8024a2c9fcd06ee69a08d5c6dc2d4a8d40b8f0b5ac42cef8');
INSERT INTO "journal" VALUES(50,'2026-11-15T12:00:00.000000+00:00','reserve','release:public','','','sha256:77b6711290077854799c69c8210cf1c06a88cebcc48638b016d69abf78ce07cc','40 1','0 0','0 0','','d9fdd5bb85701968b750a0bbafdd2c868df7865e9fcc172e17676e99b32dd79b');
INSERT INTO "journal" VALUES(51,'2026-11-15T12:00:00.000000+00:00','settle','release:public','','','sha256:77b6711290077854799c69c8210cf1c06a88cebcc48638b016d69abf78ce07cc','-40 -1','40 1','0 0','{"atom": "release:77b6711290077854799c69c8210cf1c06a88cebcc48638b016d69abf78ce07cc", "answer": "3980cd7a7818b803c0164b1cb8ddcd46bc4f244827cde8cf704a0f0d1864d6d9", "payload": "b3afede6107cbd62c7c4512a2d1f91c587a1a4e0ffcaf8aa7ffd85e5c52425c3", "steps": ["histogram"], "receipt": "73036df6c693dc8d0691d8b26e4e10e8b6cc72f9afff88341a634a0b9853c50b"}','bfba2aee73c5e40868ddfae2464e56774be00f80495dbb605d63497e45f2ed35');
INSERT INTO "journal" VALUES(52,'2026-11-15T12:00:00.000000+00:00','reserve','analyst:ben','2026-11-01','ben','sha256:595e6b4c4c98f249fd62ae071f0f1e29fcecd0ce8669d749463ccad7f1316969','1 0','0 0','0 0','','946754d527b7a6baa3958f4239724fa03d5aef838a7f96f6239085b7e8791d53');
INSERT INTO "journal" VALUES(53,'2026-11-15T12:00:00.000000+00:00','reserve','organisation:acme','','ben','sha256:595e6b4c4c98f249fd62ae071f0f1e29fcecd0ce8669d749463ccad7f1316969','1 0','0 0','0 0','','f415026252a0cec5295d5c22cc75a3bd50dc08873d050dd043ff155739f761f3');
INSERT INTO "journal" VALUES(54,'2026-11-15T12:00:00.000000+00:00','reserve','table:visits','','ben','sha256:595e6b4c4c98f249fd62ae071f0f1e29fcecd0ce8669d749463ccad7f1316969','1 0','0 0','0 0','','5022b35d2de74472ed695e3314111156ad5ba245cc26b40a0e085082225d351b');
CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    prefix TEXT NOT NULL,
    analyst TEXT NOT NULL,
    role TEXT NOT NULL,
    created TEXT NOT NULL,
    expires TEXT,
    revoked TEXT
);
INSERT INTO "keys" VALUES('3ae3c4fc9df0','232f3d7b64c4677aadd859667b3aca100ada333981141acca8c42daca41e31c3','sfumato_gold','ben','analyst','2026-11-15T12:00:00.000000+00:00','2030-01-02T00:00:00.000000+00:00',NULL);
CREATE TABLE ledger (
    id TEXT PRIMARY KEY,
    version BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    head TEXT NOT NULL
);
INSERT INTO "ledger" VALUES('29ecb9e8a9dd93861e471e99d3fac661',4,54,'5022b35d2de74472ed695e3314111156ad5ba245cc26b40a0e085082225d351b');
CREATE TABLE paid (
    account TEXT NOT NULL,
    atom TEXT NOT NULL,
    steps TEXT NOT NULL,
    PRIMARY KEY (account, atom)
);
INSERT INTO "paid" VALUES('analyst:anna','sha256:b55eba7e34532d4e01e1916130563ee85036a319fd94c0a110842da43264ddf2','call
count 1 gaussian 4
count 2 gaussian 4
count 3 gaussian 4
count 4 gaussian 4
count 5 gaussian 4
count 6 gaussian 4
cutoff
pick 1
pick 2
pick 3
pick 4
pick 5
pick 6');
INSERT INTO "paid" VALUES('organisation:acme','sha256:b55eba7e34532d4e01e1916130563ee85036a319fd94c0a110842da43264ddf2','call
count 1 gaussian 4
count 2 gaussian 4
count 3 gaussian 4
count 4 gaussian 4
count 5 gaussian 4
count 6 gaussian 4
cutoff
pick 1
pick 2
pick 3
pick 4
pick 5
pick 6');
INSERT INTO "paid" VALUES('table:visits','sha256:b55eba7e34532d4e01e1916130563ee85036a319fd94c0a110842da43264ddf2','call
count 1 gaussian 4
count 2 gaussian 4
count 3 gaussian 4
count 4 gaussian 4
count 5 gaussian 4
count 6 gaussian 4
cutoff
pick 1
pick 2
pick 3
pick 4
pick 5
pick 6');
INSERT INTO "paid" VALUES('analyst:anna','sha256:c0a96dc2d2b8c598e92fa777a46b1dbf6a592fc0191fee36ac4a1a8326e78214','call
cutoff
pick 1
pick 2
stop 3');
INSERT INTO "paid" VALUES('organisation:acme','sha256:c0a96dc2d2b8c598e92fa777a46b1dbf6a592fc0191fee36ac4a1a8326e78214','call
cutoff
pick 1
pick 2
pick 3
pick 4');
INSERT INTO "paid" VALUES('table:visits','sha256:c0a96dc2d2b8c598e92fa777a46b1dbf6a592fc0191fee36ac4a1a8326e78214','call
cutoff
pick 1
pick 2
pick 3
pick 4');
INSERT INTO "paid" VALUES('analyst:anna','sha256:d983c27adf9f12ac3e3d07809851bb37d8043970863603b816fc2b6940a480fb','histogram');
INSERT INTO "paid" VALUES('organisation:acme','sha256:d983c27adf9f12ac3e3d07809851bb37d8043970863603b816fc2b6940a480fb','histogram');
INSERT INTO "paid" VALUES('table:visits','sha256:d983c27adf9f12ac3e3d07809851bb37d8043970863603b816fc2b6940a480fb','histogram');
INSERT INTO "paid" VALUES('analyst:ben','sha256:d983c27adf9f12ac3e3d07809851bb37d8043970863603b816fc2b6940a480fb','histogram');
INSERT INTO "paid" VALUES('analyst:ben','sha256:a6fa468a177a2ca6eb9fa7cf9b483af34ecc6d04dc8d4ede586335a89f123735','histogram');
INSERT INTO "paid" VALUES('organisation:acme','sha256:a6fa468a177a2ca6eb9fa7cf9b483af34ecc6d04dc8d4ede586335a89f123735','histogram');
INSERT INTO "paid" VALUES('table:visits','sha256:a6fa468a177a2ca6eb9fa7cf9b483af34ecc6d04dc8d4ede586335a89f123735','histogram');
INSERT INTO "paid" VALUES('analyst:ben','sha256:0b36fa935da06785b17fb2fe576a2f91d6ff86dd37abb274252d7f7134f29943','count 1 gaussian 36
count 2 gaussian 36
count 3 gaussian 36
pick 1
pick 2
pick 3');
INSERT INTO "paid" VALUES('organisation:acme','sha256:0b36fa935da06785b17fb2fe576a2f91d6ff86dd37abb274252d7f7134f29943','count 1 gaussian 36
count 2 gaussian 36
count 3 gaussian 36
pick 1
pick 2
pick 3');
INSERT INTO "paid" VALUES('table:visits','sha256:0b36fa935da06785b17fb2fe576a2f91d6ff86dd37abb274252d7f7134f29943','count 1 gaussian 36
count 2 gaussian 36
count 3 gaussian 36
pick 1
pick 2
pick 3');
INSERT INTO "paid" VALUES('release:public','release:77b6711290077854799c69c8210cf1c06a88cebcc48638b016d69abf78ce07cc','histogram');
CREATE TABLE places (
    place TEXT PRIMARY KEY,
    report TEXT NOT NULL,
    statistic TEXT NOT NULL,
    entity TEXT NOT NULL,
    attribute TEXT NOT NULL,
    level TEXT NOT NULL,
    since TEXT NOT NULL,
    until TEXT NOT NULL
);
INSERT INTO "places" VALUES('b37cd8690183976831ba249c9201af457eed3decea86ce0c3955a9f55b9e45eb','ads','impressions','["a1"]','title','day','2026-10-29T23:00:00+00:00','2026-10-30T23:00:00+00:00');
INSERT INTO "places" VALUES('17c2a7532ad7857792b4731c01fbb03e66fa2cc9ef8daa69e2d9f35f520b7990','ads','impressions','["a1"]','title','day','2026-10-30T23:00:00+00:00','2026-10-31T23:00:00+00:00');
INSERT INTO "places" VALUES('e7772099575c7f0640331c153d21580d4c1bccd78d9ca1eef8ee042e812e31d7','ads','impressions','["a1"]','title','day','2026-10-31T23:00:00+00:00','2026-11-01T23:00:00+00:00');
INSERT INTO "places" VALUES('e918c6339c002ee1c51b455bf78de9a9c179f962ec5ed06728ea265fdd7a02dd','ads','impressions','["a1"]','title','day','2026-11-01T23:00:00+00:00','2026-11-02T23:00:00+00:00');
INSERT INTO "places" VALUES('98e28f1cb8f9e969f1f925ef7e22381162f2fbd22a1483dd73a683631ae42d82','ads','impressions','["a1"]','title','day','2026-11-02T23:00:00+00:00','2026-11-03T23:00:00+00:00');
INSERT INTO "places" VALUES('d800b4fa2f728ed1342c1b8075319c710480535908e4e6c315070e04b7d2413f','ads','clicks','["a1"]','title','day','2026-10-29T23:00:00+00:00','2026-10-30T23:00:00+00:00');
INSERT INTO "places" VALUES('acda9a81c358f8d35d9677860b95d4d4e204108a9300ca144609e4c9c2c0485a','ads','clicks','["a1"]','title','day','2026-10-30T23:00:00+00:00','2026-10-31T23:00:00+00:00');
INSERT INTO "places" VALUES('5f49548ea0b0eb9e417ad806424689a4bfec22e78c2e68e81e6638e84b50593f','ads','clicks','["a1"]','title','day','2026-10-31T23:00:00+00:00','2026-11-01T23:00:00+00:00');
INSERT INTO "places" VALUES('779cff8bc74096c2fa03bfaae2e5b22937a12d5be5519a3c544a79f285da5925','ads','clicks','["a1"]','title','day','2026-11-01T23:00:00+00:00','2026-11-02T23:00:00+00:00');
INSERT INTO "places" VALUES('e892fa5b651a38da30b0c29dbe100b3671a6165e9a87e4c3fe8f86f8b6e97339','ads','clicks','["a1"]','title','day','2026-11-02T23:00:00+00:00','2026-11-03T23:00:00+00:00');
INSERT INTO "places" VALUES('711d89257c932ada2e83bffbd3cb7796c1629b911090c89c5ac2b4fe334871ea','ads','clicks','["a1", "a1c0"]','','month','2026-09-30T22:00:00+00:00','2026-10-31T23:00:00+00:00');
INSERT INTO "places" VALUES('30f96d04c2dd6c4cbc256ce6539dcc8593816849cbccf37b5a4fa2c620744626','ads','clicks','["a1", "a1c0"]','','day','2026-10-31T23:00:00+00:00','2026-11-01T23:00:00+00:00');
INSERT INTO "places" VALUES('062542cde7257d9194da41b3aa86dedf6938e6a4173df5fdc4815dfee30280a5','ads','clicks','["a1", "a1c0"]','','day','2026-11-01T23:00:00+00:00','2026-11-02T23:00:00+00:00');
INSERT INTO "places" VALUES('5c0eaefad90b50c189bec9a9999ac8d782fc22cacb7745bc62a524ff5b3a8440','ads','clicks','["a1", "a1c0"]','','day','2026-10-29T23:00:00+00:00','2026-10-30T23:00:00+00:00');
INSERT INTO "places" VALUES('1ff4eb2b3ee3c17609cd03ed1c96856ebdd1132ba3eac935918de07ce864c8e0','ads','clicks','["a1", "a1c0"]','','day','2026-10-30T23:00:00+00:00','2026-10-31T23:00:00+00:00');
INSERT INTO "places" VALUES('442c8c971022079c52c7c797c8fb6a384ffa35958b5e9e980e90e00bc769f76b','ads','clicks','["a1", "a1c0"]','title','day','2026-10-29T23:00:00+00:00','2026-10-30T23:00:00+00:00');
INSERT INTO "places" VALUES('aaa785a4a9346263247cc783c03262a343c389efbcf7c9aca39fa6d66234bdc2','ads','clicks','["a1", "a1c0"]','title','day','2026-10-30T23:00:00+00:00','2026-10-31T23:00:00+00:00');
INSERT INTO "places" VALUES('1c0b562217a2da1841b5e6342dcab26b63020a6e609c408e7ad5ae65d05eec17','ads','clicks','["a1", "a1c0"]','title','day','2026-10-31T23:00:00+00:00','2026-11-01T23:00:00+00:00');
INSERT INTO "places" VALUES('b1f743ed88eda0bc0d5879436c190971c4f70b8e7328e6390e554cc50e1a729f','ads','clicks','["a1", "a1c0"]','title','day','2026-11-01T23:00:00+00:00','2026-11-02T23:00:00+00:00');
INSERT INTO "places" VALUES('98c5ede419208c88abd7095661e6f10cc5ee3b40a3922b628d88da565e8c2576','ads','impressions','["a0"]','skills','month','2026-09-30T22:00:00+00:00','2026-10-31T23:00:00+00:00');
CREATE TABLE seals (
    place TEXT NOT NULL,
    number BIGINT NOT NULL,
    version BIGINT NOT NULL,
    definition TEXT NOT NULL,
    nonce TEXT NOT NULL,
    opened BIGINT NOT NULL,
    PRIMARY KEY (place, number)
);
INSERT INTO "seals" VALUES('b37cd8690183976831ba249c9201af457eed3decea86ce0c3955a9f55b9e45eb',1,1,'ef5aa93cb2b196f0ba918dfdde3adee7e183551a8036e21d1e18475efe80efcd','b3ecdd3d562b017870545dd0cd643f73',39);
INSERT INTO "seals" VALUES('17c2a7532ad7857792b4731c01fbb03e66fa2cc9ef8daa69e2d9f35f520b7990',1,1,'ef5aa93cb2b196f0ba918dfdde3adee7e183551a8036e21d1e18475efe80efcd','f61ffa5cc636b19663ed61f8b245da9e',39);
INSERT INTO "seals" VALUES('e7772099575c7f0640331c153d21580d4c1bccd78d9ca1eef8ee042e812e31d7',1,1,'ef5aa93cb2b196f0ba918dfdde3adee7e183551a8036e21d1e18475efe80efcd','e5b9a2f99b8af0f038554bf62e5c356e',39);
INSERT INTO "seals" VALUES('e918c6339c002ee1c51b455bf78de9a9c179f962ec5ed06728ea265fdd7a02dd',1,1,'ef5aa93cb2b196f0ba918dfdde3adee7e183551a8036e21d1e18475efe80efcd','a16234605821c6e6baff140cd89b92f6',39);
INSERT INTO "seals" VALUES('98e28f1cb8f9e969f1f925ef7e22381162f2fbd22a1483dd73a683631ae42d82',1,1,'ef5aa93cb2b196f0ba918dfdde3adee7e183551a8036e21d1e18475efe80efcd','9e235aecae071c77c8cab7775a22c018',39);
INSERT INTO "seals" VALUES('d800b4fa2f728ed1342c1b8075319c710480535908e4e6c315070e04b7d2413f',1,1,'742fba77d6249665d647ba60e6cb1222e07b167da649d7b0226ea9ad776b24db','b8b245c73bbf01e402d1328af4675ec6',39);
INSERT INTO "seals" VALUES('acda9a81c358f8d35d9677860b95d4d4e204108a9300ca144609e4c9c2c0485a',1,1,'742fba77d6249665d647ba60e6cb1222e07b167da649d7b0226ea9ad776b24db','5ff36a844290f5d93684bd95c61a9830',39);
INSERT INTO "seals" VALUES('5f49548ea0b0eb9e417ad806424689a4bfec22e78c2e68e81e6638e84b50593f',1,1,'742fba77d6249665d647ba60e6cb1222e07b167da649d7b0226ea9ad776b24db','f2b749372f76a3fc68a136983112c23d',39);
INSERT INTO "seals" VALUES('779cff8bc74096c2fa03bfaae2e5b22937a12d5be5519a3c544a79f285da5925',1,1,'742fba77d6249665d647ba60e6cb1222e07b167da649d7b0226ea9ad776b24db','cad19f2950a0f42ded0635e04cac086d',39);
INSERT INTO "seals" VALUES('e892fa5b651a38da30b0c29dbe100b3671a6165e9a87e4c3fe8f86f8b6e97339',1,1,'742fba77d6249665d647ba60e6cb1222e07b167da649d7b0226ea9ad776b24db','8d3dce65d3536a53a70e32f8496620de',39);
INSERT INTO "seals" VALUES('711d89257c932ada2e83bffbd3cb7796c1629b911090c89c5ac2b4fe334871ea',1,1,'db0138a104390fec855d0efc788940640c87064ba0fb28ecad2f7c5c65d832de','080171e21b1c8d884630c3c19f251423',41);
INSERT INTO "seals" VALUES('30f96d04c2dd6c4cbc256ce6539dcc8593816849cbccf37b5a4fa2c620744626',1,1,'db0138a104390fec855d0efc788940640c87064ba0fb28ecad2f7c5c65d832de','3c76892e64773a80cb3e9c6cf31b6537',41);
INSERT INTO "seals" VALUES('062542cde7257d9194da41b3aa86dedf6938e6a4173df5fdc4815dfee30280a5',1,1,'db0138a104390fec855d0efc788940640c87064ba0fb28ecad2f7c5c65d832de','f10893b6ef5de676774da78e793f9491',41);
INSERT INTO "seals" VALUES('5c0eaefad90b50c189bec9a9999ac8d782fc22cacb7745bc62a524ff5b3a8440',1,1,'db0138a104390fec855d0efc788940640c87064ba0fb28ecad2f7c5c65d832de','0b0371ba661124dc1d3b18e3ef9d0c8c',43);
INSERT INTO "seals" VALUES('1ff4eb2b3ee3c17609cd03ed1c96856ebdd1132ba3eac935918de07ce864c8e0',1,1,'db0138a104390fec855d0efc788940640c87064ba0fb28ecad2f7c5c65d832de','87b983590a7ca0a22e1af39a3b6e03d3',43);
INSERT INTO "seals" VALUES('442c8c971022079c52c7c797c8fb6a384ffa35958b5e9e980e90e00bc769f76b',1,1,'b524dc980d81de572429086814d0615590c796d175074183d6997f4a216c0c23','80157be9fa62c8e383b8536a8f7e3884',45);
INSERT INTO "seals" VALUES('aaa785a4a9346263247cc783c03262a343c389efbcf7c9aca39fa6d66234bdc2',1,1,'b524dc980d81de572429086814d0615590c796d175074183d6997f4a216c0c23','d998f44193afcb6140daca02e163a442',45);
INSERT INTO "seals" VALUES('1c0b562217a2da1841b5e6342dcab26b63020a6e609c408e7ad5ae65d05eec17',1,1,'b524dc980d81de572429086814d0615590c796d175074183d6997f4a216c0c23','93790cc25faab293a09d6936bc3da68c',45);
INSERT INTO "seals" VALUES('b1f743ed88eda0bc0d5879436c190971c4f70b8e7328e6390e554cc50e1a729f',1,1,'b524dc980d81de572429086814d0615590c796d175074183d6997f4a216c0c23','58c1cbf4250e02e85262ab39d17be966',45);
INSERT INTO "seals" VALUES('98c5ede419208c88abd7095661e6f10cc5ee3b40a3922b628d88da565e8c2576',1,1,'f37e3820466c2b25f1ff7f04da85a11ba26b17c222a4eac3c516cdf61b244a10','ccbd801bfa5df78a0e63be58874738f6',47);
CREATE INDEX journal_by_analyst ON journal (analyst, sequence);
CREATE UNIQUE INDEX calls_by_number ON calls (account, number);
CREATE INDEX journal_by_time ON journal (at);
CREATE INDEX places_by_report ON places (report);
CREATE INDEX seals_by_opened ON seals (opened);
CREATE INDEX cells_by_stored ON cells (stored);
CREATE INDEX journal_of_restores ON journal (sequence) WHERE kind = 'restore';
CREATE INDEX calls_by_digest ON calls (account, digest);
COMMIT;
