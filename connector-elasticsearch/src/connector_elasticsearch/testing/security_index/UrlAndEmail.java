// SPDX-License-Identifier: Apache-2.0
package connectors;

import org.apache.lucene.analysis.Tokenizer;
import org.apache.lucene.analysis.email.UAX29URLEmailTokenizer;
import org.elasticsearch.plugin.NamedComponent;
import org.elasticsearch.plugin.analysis.TokenizerFactory;

/** Words, addresses and URLs, as tokens. */
@NamedComponent("uax_url_email")
public class UrlAndEmail implements TokenizerFactory {
    @Override
    public Tokenizer create() {
        return new UAX29URLEmailTokenizer();
    }
}
